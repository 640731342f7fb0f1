// What ChatTemplate adds to a template: reading what clients send, other words for what a template can't say,
// the continuation of an answer, the built-in templates; and the errors.
#include "text/chat_template.h"

#include <fstream>
#include <sstream>

#include "base/failure.h"
#include "catch.h"

using namespace coterie;
using namespace coterie::text;

namespace {

std::string family(const std::string& name) {
    std::ifstream file(TEST_DATA "/jinja/families/" + name + ".jinja", std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    REQUIRE_FALSE(text.str().empty());
    return text.str();
}

ChatTemplate builtin(const std::string& name) {
    return ChatTemplate(builtin_template(name), "<s>", "</s>");
}

Failure failure_of(const ChatTemplate& chat, const std::string& messages, const std::string& tools = "",
                   const ChatOptions& options = {}) {
    try {
        chat.render(messages, tools, options);
    } catch (const Failure& failure) {
        return failure;
    }
    return Failure(Status::ok, "");
}

const char* const weather = R"([{"type": "function", "function": {"name": "weather", "description": "d",
                                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}])";
const char* const round_trip = R"([{"role": "user", "content": "Bern?"},
    {"role": "assistant", "content": null, "tool_calls": [
        {"id": "call_abcdefghijkl", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Bern\"}"}}]},
    {"role": "tool", "tool_call_id": "call_abcdefghijkl", "content": "snow"}])";

}  // namespace

TEST_CASE("a conversation as clients send it", "[chat]") {
    const ChatTemplate chat = builtin("chatml");
    CHECK(chat.render(R"([{"role": "user", "content": "Hi"}])") ==
          "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    CHECK(
        chat.render(
            R"([{"role": "developer", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]},
                         {"role": "User", "content": "Hi", "name": null}, {"role": "assistant", "content": null}])") ==
        "<|im_start|>system\nA\nB<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<|im_end|"
        ">\n"
        "<|im_start|>assistant\n");
    ChatOptions quiet;
    quiet.add_generation_prompt = false;
    CHECK(chat.render(R"([{"role": "user", "content": "Hi"}])", "[]", quiet) ==
          "<|im_start|>user\nHi<|im_end|>\n");
}

TEST_CASE("the last message can be continued", "[chat]") {
    ChatOptions options;
    options.continue_final_message = true;
    const char* messages =
        R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Once upon "}])";
    CHECK(builtin("chatml").render(messages, "", options) ==
          "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nOnce upon ");
    // This one trims its messages, so the space before the cut goes, too.
    CHECK(builtin("llama3").render(messages, "", options) ==
          "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_"
          "header_id|>\n\nOnce upon");
    CHECK(builtin("chatml").render(
              R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}])", "", options) ==
          "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    const ChatTemplate parts(family("qwen3.5"));
    const std::string open = parts.render(
        R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [{"type": "text", "text": "On"}]}])",
        "", options);
    CHECK(open.substr(open.size() - 3) == "\nOn");
}

TEST_CASE("a template without a system role gets the system message in the user's", "[chat]") {
    const ChatTemplate gemma(family("gemma2"), "<bos>");
    REQUIRE_FALSE(gemma.capabilities().system_role);
    CHECK(
        gemma.render(R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])") ==
        "<bos><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\n");
    CHECK(gemma.render(R"([{"role": "system", "content": "A"}, {"role": "system", "content": "B"},
                           {"role": "user", "content": "Hi"}, {"role": "user", "content": "You?"}])") ==
          "<bos><start_of_turn>user\nA\n\nB\n\nHi\n\nYou?<end_of_turn>\n<start_of_turn>model\n");
}

TEST_CASE("a late system message reaches a template that forbids it", "[chat]") {
    const ChatTemplate qwen(family("qwen3.5"));
    REQUIRE(qwen.capabilities().system_role);
    REQUIRE_FALSE(qwen.capabilities().late_system);
    const std::string prompt =
        qwen.render(R"([{"role": "system", "content": "A"}, {"role": "system", "content": "B"},
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hm"}, {"role": "system", "content": "Now C"},
        {"role": "user", "content": "So?"}])");
    CHECK(prompt.find("<|im_start|>system\nA\n\nB<|im_end|>") != std::string::npos);
    CHECK(prompt.find("<|im_start|>user\nNow C<|im_end|>") != std::string::npos);
}

TEST_CASE("tools are put into words where a template has none", "[chat]") {
    const ChatTemplate chat = builtin("chatml");
    REQUIRE_FALSE(chat.capabilities().tools);
    const std::string prompt = chat.render(round_trip, weather);
    CHECK(prompt.find("<|im_start|>system\nYou can call functions.") == 0);
    CHECK(prompt.find("\"name\": \"weather\"") != std::string::npos);
    CHECK(prompt.find("<|im_start|>assistant\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": "
                      "\"Bern\"}}\n"
                      "</tool_call><|im_end|>") != std::string::npos);
    const std::string gemma = ChatTemplate(family("gemma2"), "<bos>").render(round_trip, weather);
    CHECK(gemma.find("<start_of_turn>user\n<tool_response>\nsnow\n</tool_response><end_of_turn>") !=
          std::string::npos);
}

TEST_CASE("tools in words ask for calls as the template writes them", "[chat]") {
    const ChatTemplate deepseek(family("deepseek-v3.1"), "<bos>", "<｜end▁of▁sentence｜>");
    REQUIRE_FALSE(deepseek.capabilities().tools);
    CHECK(
        deepseek.capabilities().call_example ==
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function_name<｜tool▁sep｜>{\"argument_name\": \"value\"}"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>");
    const std::string prompt = deepseek.render(round_trip, weather);
    CHECK(prompt.find("answer in this form:\n<｜tool▁calls▁begin｜>") != std::string::npos);
    CHECK(prompt.find("<tool_call>") == std::string::npos);
    CHECK(ChatTemplate(family("qwen3")).capabilities().call_example ==
          "<tool_call>\n{\"name\": \"function_name\", \"arguments\": {\"argument_name\": "
          "\"value\"}}\n</tool_call>");
    CHECK(builtin("chatml").capabilities().call_example.empty());
    const ChatTemplate phi(family("phi4-mini"));
    CHECK(phi.capabilities().tools_in_system);
    CHECK(phi.render(round_trip, weather).find("<|system|><|tool|>[{\"type\": \"function\"") == 0);
}

TEST_CASE("calls in words follow the markup the template speaks of", "[chat]") {
    const ChatTemplate lfm(family("lfm2"));
    REQUIRE(lfm.capabilities().tools);
    REQUIRE_FALSE(lfm.capabilities().tool_calls);
    CHECK(lfm.render(round_trip, weather)
              .find("<|im_start|>assistant\n<|tool_call_start|>[weather(city='Bern')]<|tool_call_end|><|im_"
                    "end|>\n"
                    "<|im_start|>tool\n<|tool_response_start|>snow<|tool_response_end|>") !=
          std::string::npos);
    const ChatTemplate granite(
        "{{ tools | tojson }} answer with <|tool_call|>\n{% for m in messages %}{{ m.role + ':' + m.content "
        "}};{% endfor %}");
    REQUIRE_FALSE(granite.capabilities().tool_calls);
    CHECK(granite.render(round_trip, weather)
              .find("assistant:<|tool_call|>[{\"name\": \"weather\", \"arguments\": {\"city\": "
                    "\"Bern\"}}];tool:snow;") != std::string::npos);
}

TEST_CASE("ids, names and arguments of calls fit the template", "[chat]") {
    const ChatTemplate mistral(family("mistral-nemo"), "<s>", "</s>");
    REQUIRE(mistral.capabilities().tool_calls);
    const std::string prompt = mistral.render(round_trip, weather);
    CHECK(prompt.find("\"id\": \"000000001\"") != std::string::npos);
    CHECK(prompt.find("\"call_id\": \"000000001\"") != std::string::npos);
    // Ollama's form: no ids, arguments as an object, the result without a name.
    const char* bare = R"([{"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Bern"}}}]},
        {"role": "tool", "content": {"sky": "grey"}}])";
    const ChatTemplate kimi(family("kimi-k2"));
    CHECK(kimi.render(bare, weather).find("## Return of call00000\\n{\"sky\": \"grey\"}") !=
          std::string::npos);

    // Wants the arguments as text, and the content null beside a call.
    const ChatTemplate picky(
        "{% for m in messages %}{{ m.role }}:{% if m.content is none %}{% for c in m.tool_calls %}{{ "
        "c.function.name + ' ' + "
        "c.function.arguments }}{% endfor %}{% else %}{{ m.content }}{% endif %};{% endfor %}");
    CHECK(picky.capabilities().arguments_as_text);
    CHECK(picky.capabilities().null_beside_calls);
    CHECK(picky.render(round_trip) == "user:Bern?;assistant:weather {\"city\": \"Bern\"};tool:snow;");
}

TEST_CASE("reasoning in the history is the template's choice, or dropped", "[chat]") {
    const ChatTemplate chat(
        "{% for m in messages %}[{{ m.reasoning_content or '' }}|{{ m.thinking or '' }}|{{ m.content }}]{% "
        "endfor %}");
    CHECK(chat.capabilities().reasoning_history);
    const char* messages =
        R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning": "r"},
                              {"role": "assistant", "content": "<think>\nx</think>\n\nc"}])";
    CHECK(chat.render(messages) == "[||a][r|r|b][||<think>\nx</think>\n\nc]");
    ChatOptions strip;
    strip.strip_reasoning = true;
    CHECK(chat.render(messages, "", strip) == "[||a][||b][||c]");
}

TEST_CASE("switches and variables reach the template", "[chat]") {
    const ChatTemplate qwen(family("qwen3"));
    CHECK(qwen.capabilities().thinking_switch);
    CHECK(qwen.capabilities().thinking);
    CHECK_FALSE(qwen.capabilities().reasoning_effort);
    const char* hi = R"([{"role": "user", "content": "Hi"}])";
    ChatOptions off, effort;
    off.enable_thinking = false;
    const std::string prompt = qwen.render(hi, "", off);
    CHECK(prompt.substr(prompt.size() - 19) == "<think>\n\n</think>\n\n");
    const ChatTemplate harmony(family("gpt-oss"));
    CHECK(harmony.capabilities().reasoning_effort);
    effort.reasoning_effort = "high";
    effort.variables_json = R"({"model_identity": "You are Coterie."})";
    effort.now = 1741100767;
    CHECK(harmony.render(hi, "", effort)
              .find("You are Coterie.\nKnowledge cutoff: 2024-06\nCurrent date: 2025-03-04\n\n"
                    "Reasoning: high") != std::string::npos);
}

TEST_CASE("bad conversations are told apart from bad templates", "[chat]") {
    const ChatTemplate chat = builtin("chatml");
    CHECK(failure_of(chat, "[{]").status() == Status::invalid_argument);
    CHECK(failure_of(chat, "{}").status() == Status::invalid_argument);
    CHECK(failure_of(chat, "[]").status() == Status::invalid_argument);
    CHECK(failure_of(chat, R"([{"content": "x"}])").message() == "message 0 is not an object with a role");
    CHECK(failure_of(chat, R"([{"role": "user", "content": 5}])").status() == Status::invalid_argument);
    CHECK(failure_of(chat, R"([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])")
              .status() == Status::unsupported);
    CHECK(failure_of(chat, R"([{"role": "user", "content": "x"}])", "{}").status() ==
          Status::invalid_argument);
    CHECK(failure_of(chat, R"([{"role": "user", "content": "x"}])", R"([{"type": "function"}])").status() ==
          Status::invalid_argument);
    ChatOptions variables;
    variables.variables_json = "[1]";
    CHECK(failure_of(chat, R"([{"role": "user", "content": "x"}])", "", variables).status() ==
          Status::invalid_argument);
    variables.variables_json = "{";
    CHECK(failure_of(chat, R"([{"role": "user", "content": "x"}])", "", variables).status() ==
          Status::invalid_argument);
    const std::string deep = std::string(500, '[') + std::string(500, ']');
    CHECK(failure_of(chat, R"([{"role": "user", "content": "x", "extra": )" + deep + "}]").status() ==
          Status::invalid_argument);

    const ChatTemplate llama(family("llama3.1"));
    const Failure refused =
        failure_of(llama, R"([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [
        {"function": {"name": "a", "arguments": {}}}, {"function": {"name": "b", "arguments": {}}}]}])");
    CHECK(refused.status() == Status::invalid_argument);
    CHECK(refused.message() ==
          "the chat template refuses this conversation: This model only supports single tool-calls at once!");
    const Failure broken = failure_of(
        ChatTemplate("{{ messages[0].content }}\n{% if messages[0].content == 'x' %}{{ 1 / 0 }}{% endif %}"),
        R"([{"role": "user", "content": "x"}])");
    CHECK(broken.status() == Status::bad_model);
    CHECK(broken.message() == "chat template, line 2: division by zero");
    CHECK_THROWS_AS(ChatTemplate("{% if %}"), Failure);
}

TEST_CASE("every built-in template renders a conversation", "[chat]") {
    for (const char* name : {"chatml", "llama3", "llama2", "mistral", "mistral-v7", "gemma", "phi3", "phi4",
                             "deepseek", "glm4", "command-r", "granite", "harmony", "zephyr"}) {
        CAPTURE(name);
        REQUIRE(builtin_template(name));
        const ChatTemplate chat = builtin(name);
        const std::string prompt =
            chat.render(R"([{"role": "system", "content": "SYS"}, {"role": "user", "content": "ONE"},
            {"role": "assistant", "content": "TWO"}, {"role": "user", "content": "THREE"}])",
                        weather);
        CAPTURE(prompt);
        for (const char* part : {"SYS", "ONE", "TWO", "THREE", "weather"})
            CHECK(prompt.find(part) != std::string::npos);
        CHECK(prompt.find("TWO") > prompt.find("ONE"));
    }
    CHECK(builtin_template("nothing") == nullptr);
    // The built-in texts say what the families' own templates say.
    const char* turns =
        R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hm"}, {"role": "user", "content": "So"}])";
    CHECK(builtin("llama3").render(turns) == ChatTemplate(family("llama3"), "<s>", "</s>").render(turns));
    CHECK(builtin("gemma").render(turns) == ChatTemplate(family("gemma2"), "<s>", "</s>").render(turns));
    CHECK(ChatTemplate(builtin_template("deepseek"), "<s>", "<｜end▁of▁sentence｜>").render(turns) ==
          ChatTemplate(family("deepseek-v3"), "<s>", "</s>").render(turns));
    CHECK(builtin("phi4").render(turns) == ChatTemplate(family("phi4"), "<s>", "</s>").render(turns));
    CHECK(builtin("llama2").render(turns) == ChatTemplate(family("llama2"), "<s>", "</s>").render(turns));
}

TEST_CASE("the built-in template is chosen by tokens, then by architecture", "[chat]") {
    const auto with = [](std::vector<std::string> tokens) {
        return [tokens](std::string_view token) {
            for (const std::string& one : tokens) {
                if (one == token) return true;
            }
            return false;
        };
    };
    CHECK(choose_builtin_template("llama", with({"<|im_start|>", "<|im_end|>"})) == "chatml");
    CHECK(choose_builtin_template("llama", with({"<|start_header_id|>", "<|eot_id|>"})) == "llama3");
    CHECK(choose_builtin_template("llama", with({"[INST]", "[/INST]", "[SYSTEM_PROMPT]"})) == "mistral-v7");
    CHECK(choose_builtin_template("llama", with({})) == "llama2");
    CHECK(choose_builtin_template("gemma3", nullptr) == "gemma");
    CHECK(choose_builtin_template("unheard-of", with({"<|im_start|>"})) == "chatml");
    for (const char* architecture :
         {"llama", "qwen2", "gemma2", "phi3", "deepseek2", "command-r", "granite", "gpt-oss", "glm4"})
        CHECK(builtin_template(choose_builtin_template(architecture, nullptr)) != nullptr);
}

TEST_CASE("the language of a template is told from its text", "[chat]") {
    CHECK(ChatTemplate("{{ .Prompt }}").language() == TemplateLanguage::go);
    CHECK(ChatTemplate("{{- range .Messages }}{{ .Content }}{{ end }}").language() == TemplateLanguage::go);
    CHECK(ChatTemplate("{{ bos_token }}{{ messages[0].content }}").language() == TemplateLanguage::jinja);
    CHECK(ChatTemplate("plain").language() == TemplateLanguage::jinja);
}
