// Any text as a Jinja template, as a Go template, or as the messages of a conversation: a Failure or a text,
// quickly.
#include "text/jinja.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/failure.h"
#include "text/chat_template.h"
#include "text/go_template.h"

using namespace coterie;
using namespace coterie::text;

namespace {

const char* const messages =
    R"([{"role": "system", "content": "s"}, {"role": "user", "content": "Grüße <x> 'y' \"z\"\n"},
        {"role": "assistant", "content": "<think>t</think>a", "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5, null]}}}]},
        {"role": "tool", "content": "r"}])";
const char* const tools =
    R"([{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "number"}}}}}}])";

void render_jinja(const std::string& source) {
    static const jinja::Value variables =
        jinja::parse_json(std::string("{\"messages\": ") + messages + ", \"tools\": " + tools +
                          ", \"add_generation_prompt\": true, \"bos_token\": \"<s>\"}");
    jinja::Limits limits;
    limits.steps = 20'000;
    limits.bytes = uint64_t{1} << 20;
    jinja::Template(source).render(variables.as_dict(), limits, 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
    try {
        if (data[0] == 'g') {
            ChatOptions options;
            options.now = 0;
            ChatTemplate(text, "", "", TemplateLanguage::go).render(messages, tools, options);
        } else if (data[0] == 'm') {
            static const ChatTemplate chat(builtin_template("chatml"));
            chat.render(text, tools);
        } else {
            render_jinja(text);
        }
    } catch (const Failure&) {
    }
    return 0;
}
