// Turns a conversation into the exact text a model was trained to continue. The template comes from the model
// file (Jinja), from an Ollama store (Go), from the caller, or from our own table. What a template can't do
// by itself (a system message, tools, a tool's result) is found out by trying, and put in another way.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja.h"

namespace coterie::text {

enum class TemplateLanguage { automatic, jinja, go };

struct ChatOptions {
    bool add_generation_prompt = true;
    bool continue_final_message =
        false;  // the last message is the start of the answer; no generation prompt then
    std::optional<bool> enable_thinking;  // also handed over as `thinking`, which some templates ask for
    std::string reasoning_effort;         // "low", "high" ...; empty: the template's default
    bool strip_reasoning = false;  // drop the reasoning of earlier answers, whatever the template would do
    std::string variables_json;    // an object; its members override everything else (chat_template_kwargs)
    std::optional<int64_t> now;    // the clock, in seconds since 1970; for tests
};

// What a template does by itself, found by rendering small conversations.
struct ChatCapabilities {
    bool text_content = true;        // content as a string
    bool typed_content = false;      // content as a list of parts
    bool system_role = false;        // a system message at the start
    bool several_systems = false;    // two of them at the start
    bool late_system = false;        // one in the middle
    bool tools = false;              // a list of tools
    bool tool_calls = false;         // an answer that called a tool
    bool tool_results = false;       // messages of the role tool
    bool null_beside_calls = false;  // shows calls only where the content is null
    bool arguments_as_text = false;  // wants the arguments of a call as a JSON string, not as an object
    bool thinking = false;           // knows of reasoning at all
    bool thinking_switch = false;    // enable_thinking makes a difference
    bool reasoning_effort = false;   // reasoning_effort makes a difference
    bool tools_in_system = false;    // wants the tools as JSON text in the system message, under "tools"
    bool reasoning_history = false;  // shows the reasoning_content of the last answer
    std::string
        call_example;  // how it writes a call of function_name({"argument_name": "value"}); empty if it can't
};

class ChatTemplate {
  public:
    // Fails with bad_model and a line when the text is no template.
    explicit ChatTemplate(std::string source, std::string bos_token = "", std::string eos_token = "",
                          TemplateLanguage language = TemplateLanguage::automatic);
    ~ChatTemplate();
    ChatTemplate(ChatTemplate&&) noexcept;
    ChatTemplate& operator=(ChatTemplate&&) noexcept;

    // `messages` and `tools` as JSON in the form of OpenAI's chat completions; tools may be empty.
    // Fails with invalid_argument when they are malformed or the template refuses them, bad_model when it is
    // at fault, unsupported for images and sounds.
    std::string render(std::string_view messages_json, std::string_view tools_json = {},
                       const ChatOptions& options = {}) const;

    const ChatCapabilities& capabilities() const { return capabilities_; }
    const std::string& source() const { return source_; }
    TemplateLanguage language() const { return language_; }

  private:
    struct Engine;
    std::string source_, bos_token_, eos_token_;
    TemplateLanguage language_;
    std::unique_ptr<const Engine> engine_;
    ChatCapabilities capabilities_;
};

// A template of our own by name ("chatml", "llama3" ...), or null. Each ends turns as its family does.
const char* builtin_template(std::string_view name);

// The name of the built-in template for a model without one: by the control tokens in its vocabulary, then by
// the architecture. Never empty: ChatML when nothing tells.
std::string choose_builtin_template(std::string_view architecture,
                                    const std::function<bool(std::string_view)>& has_token);

}  // namespace coterie::text
