// Go templates, compared with what Go's text/template makes of them (tests/jinja/make_go_expectations.go).
#include "text/go_template.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/failure.h"
#include "catch.h"
#include "text/chat_template.h"

using namespace coterie;
using namespace coterie::text;
using Json = nlohmann::ordered_json;

namespace {

Json json_of(const std::string& path) {
    std::ifstream file(TEST_DATA "/jinja/" + path);
    REQUIRE(file);
    return Json::parse(file);
}

std::string text_of(const std::string& path) {
    std::ifstream file(TEST_DATA "/jinja/" + path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    REQUIRE_FALSE(text.str().empty());
    return text.str();
}

}  // namespace

TEST_CASE("Go expressions give what Go gives", "[go]") {
    const Json data = json_of("go.json");
    ChatOptions options;
    options.variables_json = data["variables"].dump();
    options.now = 1741100767;
    REQUIRE(data["expressions"].size() > 30);
    for (const Json& one : data["expressions"]) {
        const std::string source = one["template"];
        CAPTURE(source);
        std::string text, message;
        try {
            text = GoTemplate(source).render_prompt("", "", "", options);
        } catch (const Failure& failure) {
            CHECK(failure.status() == Status::bad_model);
            message = failure.message();
        }
        CAPTURE(message);
        if (one.contains("fails")) {
            CHECK(message.find("line 1: ") != std::string::npos);
        } else {
            CHECK(message.empty());
            CHECK(text == one["text"].get<std::string>());
        }
    }
}

TEST_CASE("Ollama's templates give what Go gives", "[go]") {
    const Json data = json_of("go.json"), conversations = json_of("conversations.json");
    REQUIRE(data["families"].size() >= 12);
    for (const auto& [family, cases] : data["families"].items()) {
        CAPTURE(family);
        const ChatTemplate chat(text_of("go/" + family + ".tmpl"));
        REQUIRE(chat.language() == TemplateLanguage::go);
        const ChatCapabilities& can = chat.capabilities();
        size_t compared = 0;
        for (const auto& [name, expected] : cases.items()) {
            CAPTURE(name);
            const Json& conversation = conversations[name];
            bool says_all = can.tools || !conversation.contains("tools");
            for (const Json& message : conversation["messages"]) {
                says_all &= can.tool_calls || !message.contains("tool_calls");
                says_all &= can.tool_results || message["role"] != "tool";
                says_all &= can.system_role || message["role"] != "system";
            }
            if (!says_all) continue;  // put into words, which Ollama does not do
            ChatOptions options;
            options.now = 1741100767;
            if (conversation.contains("variables")) {
                const Json& variables = conversation["variables"];
                if (variables.contains("enable_thinking"))
                    options.enable_thinking = variables["enable_thinking"].get<bool>();
                options.reasoning_effort = variables.value("reasoning_effort", "");
            }
            const std::string tools = conversation.contains("tools") ? conversation["tools"].dump() : "";
            CHECK(chat.render(conversation["messages"].dump(), tools, options) ==
                  expected["text"].get<std::string>());
            ++compared;
        }
        CHECK(compared >= 7);
    }
}

TEST_CASE("a Go template fills in the middle", "[go]") {
    const GoTemplate code(text_of("go/fill-in.tmpl"));
    REQUIRE(code.fills_in_the_middle());
    CHECK(code.render_prompt("", "def f(", "return x", {}) == "<PRE> def f( <SUF>return x <MID> ");
    CHECK(code.render_prompt("Sys", "Hi", "", {}) == "[INST] <<SYS>>Sys<</SYS>>\n\nHi [/INST] ");
}

TEST_CASE("a hostile Go template ends in an error", "[go]") {
    const auto fails = [](const std::string& source) {
        try {
            GoTemplate(source).render_prompt("", "x", "", {});
        } catch (const Failure&) {
            return true;
        }
        return false;
    };
    CHECK(fails("{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}"));
    CHECK(fails("{{ range 100000 }}{{ range 100000 }}x{{ end }}{{ end }}"));
    CHECK(fails("{{ printf \"%999999d\" 1 }}"));
    std::string deep;
    for (int i = 0; i < 5000; ++i) deep += "{{ if true }}";
    CHECK(fails(deep));
    CHECK(fails("{{ " + std::string(5000, '(') + " }}"));
}
