// Ollama's templates: Go's text/template as far as the models in its store use it, over the fields Ollama
// hands them. Values are those of the Jinja interpreter; a field's Go name stands for its JSON name
// (.ToolCalls for tool_calls).
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_messages.h"
#include "text/chat_template.h"

namespace coterie::text {

namespace go {
struct Program;
}

class GoTemplate {
  public:
    // Fails with bad_model and a line when the text is not a template.
    explicit GoTemplate(std::string_view source);

    // A conversation. A template that knows no .Messages is run turn by turn, as Ollama does; one that knows
    // neither messages nor a response gets the response appended. The template itself decides on the
    // generation prompt.
    std::string render_chat(const Messages& messages, const jinja::Value& tools,
                            const ChatOptions& options) const;

    // A single prompt, with a suffix when text is to be filled in between.
    std::string render_prompt(std::string_view system, std::string_view prompt, std::string_view suffix,
                              const ChatOptions& options) const;

    const ChatCapabilities& capabilities() const { return capabilities_; }
    bool fills_in_the_middle() const;  // knows .Suffix

  private:
    std::string run(jinja::Dict data, const ChatOptions& options, bool stop_at_response) const;
    std::shared_ptr<const go::Program> program_;
    ChatCapabilities capabilities_;
};

}  // namespace coterie::text
