// Whole chat templates over whole conversations, each compared with what Python's Jinja2 makes of it.
// COTERIE_TEMPLATES may name a file that make_expectations.py printed for templates that are not committed.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/failure.h"
#include "catch.h"
#include "text/chat_template.h"
#include "text/jinja.h"

using namespace coterie;
using namespace coterie::text;
using Json = nlohmann::ordered_json;

namespace {

std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

void compare(const Json& data) {
    const int64_t now = data["now"];
    for (const auto& [family, one] : data["families"].items()) {
        CAPTURE(family);
        const std::string source = one.contains("template")
                                       ? one["template"].get<std::string>()
                                       : text_of(TEST_DATA "/jinja/families/" + family + ".jinja");
        REQUIRE_FALSE(source.empty());
        const jinja::Template chat(source);
        for (const auto& [name, expected] : one["cases"].items()) {
            CAPTURE(name);
            Json variables = data["variables"][name];
            variables.update(one["special"]);
            std::string text, message;
            Status status = Status::ok;
            try {
                text = chat.render(jinja::parse_json(variables.dump()).as_dict(), {}, now);
            } catch (const Failure& failure) {
                status = failure.status();
                message = failure.message();
            }
            CAPTURE(message);
            if (expected.contains("text")) {
                CHECK(status == Status::ok);
                CHECK(text == expected["text"].get<std::string>());
            } else if (expected.value("fails", "").find("is unsafe") ==
                       std::string::npos) {  // we let lists grow
                CHECK(status == (expected.contains("raises") ? Status::invalid_argument : Status::bad_model));
            }
        }
    }
}

// Whether the template can say all this by itself; otherwise Coterie says it in other words than Python's
// rendering.
bool within(const ChatCapabilities& can, const Json& conversation) {
    bool system_seen = false, other_seen = false, needs_more = false;
    for (const auto& message : conversation["messages"]) {
        const std::string role = message["role"];
        if (role == "system") {
            needs_more |=
                !can.system_role || (system_seen && !can.several_systems) || (other_seen && !can.late_system);
            system_seen = true;
        } else {
            other_seen = true;
        }
        needs_more |= message.contains("tool_calls") &&
                      (!can.tool_calls || can.arguments_as_text || can.null_beside_calls);
        needs_more |= role == "tool" && !can.tool_results;
        needs_more |= message["content"].is_array() && !can.typed_content;
    }
    needs_more |= can.tools_in_system && !conversation["tools"].is_null();
    return !needs_more && (conversation["tools"].is_null() || can.tools) && can.text_content;
}

// A row of the table in docs/chat.md: what a template does by itself is ticked, the rest Coterie puts into
// words.
std::string row_of(const std::string& family, const ChatCapabilities& can) {
    const auto tick = [](bool yes) { return yes ? std::string(" ✓ |") : std::string(" words |"); };
    std::string system = can.system_role ? (can.late_system ? " anywhere |" : " first |") : " words |";
    std::string thinking = !can.thinking          ? " - |"
                           : can.thinking_switch  ? " switch |"
                           : can.reasoning_effort ? " effort |"
                                                  : " ✓ |";
    return "| " + family + " | ✓ |" + system + tick(can.tools) + tick(can.tool_calls) +
           tick(can.tool_results) + thinking + (can.reasoning_history ? " ✓ |" : " - |");
}

// The same conversations through ChatTemplate, from the JSON a client would send.
size_t compare_rendering(const Json& data, bool report) {
    std::ifstream file(TEST_DATA "/jinja/conversations.json");
    const Json conversations = Json::parse(file);
    size_t compared = 0;
    for (const auto& [family, one] : data["families"].items()) {
        CAPTURE(family);
        const std::string source = one.contains("template")
                                       ? one["template"].get<std::string>()
                                       : text_of(TEST_DATA "/jinja/families/" + family + ".jinja");
        const ChatTemplate chat(source, one["special"]["bos_token"], one["special"]["eos_token"]);
        const ChatCapabilities& can = chat.capabilities();
        if (report) std::cout << row_of(family, can) << "\n";
        for (const auto& [name, expected] : one["cases"].items()) {
            CAPTURE(name);
            if (!expected.contains("text") || !within(can, data["variables"][name])) continue;
            const Json& conversation = conversations[name];
            ChatOptions options;
            options.now = data["now"].get<int64_t>();
            options.add_generation_prompt = conversation.value("add_generation_prompt", true);
            if (conversation.contains("variables")) options.variables_json = conversation["variables"].dump();
            const std::string tools = conversation.contains("tools") ? conversation["tools"].dump() : "";
            CHECK(chat.render(conversation["messages"].dump(), tools, options) ==
                  expected["text"].get<std::string>());
            ++compared;
        }
    }
    return compared;
}

}  // namespace

TEST_CASE("templates of the families give what Python gives", "[jinja][chat]") {
    std::ifstream file(TEST_DATA "/jinja/families.json");
    REQUIRE(file);
    const Json data = Json::parse(file);
    REQUIRE(data["families"].size() >= 50);
    compare(data);
    CHECK(compare_rendering(data, false) > 800);
}

TEST_CASE("docs/chat.md says of every family what its template does", "[jinja][chat]") {
    const std::string page = text_of(SOURCE_ROOT "/docs/chat.md");
    std::ifstream file(TEST_DATA "/jinja/families.json");
    const Json data = Json::parse(file);
    for (const auto& [family, one] : data["families"].items()) {
        const ChatTemplate chat(text_of(TEST_DATA "/jinja/families/" + family + ".jinja"));
        const std::string row = row_of(family, chat.capabilities());
        CAPTURE(row);
        CHECK(page.find(row + "\n") != std::string::npos);
    }
}

TEST_CASE("templates that are not committed give what Python gives", "[jinja]") {
    const char* path = std::getenv("COTERIE_TEMPLATES");
    if (!path) {
        std::cout << "skipped: COTERIE_TEMPLATES names no file of templates\n";
        return;
    }
    std::ifstream file(path);
    REQUIRE(file);
    const Json data = Json::parse(file);
    compare(data);
    CHECK(compare_rendering(data, true) > 0);
}
