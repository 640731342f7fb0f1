// Grammars of whole answers: a call in a family's own markup (tool_choice "required" or a name), calls that
// must be right if there are any ("auto"), and content that follows a schema; each after the family's
// thinking. What they derive is what AnswerParser of the same format reads back as complete calls with valid
// arguments.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "text/answer.h"
#include "text/grammar.h"
#include "text/json_schema.h"

namespace coterie::text {

enum class ThinkingStart : uint8_t {
    none,      // the answer must not think (the prompt has closed thinking, or the family doesn't)
    open,      // the prompt has opened it (prompt_opens_thinking)
    by_model,  // the model may open it, at the answer's start
};

// Where the rendered prompt leaves thinking. A prompt that closes it means no thinking.
ThinkingStart thinking_start(const AnswerFormat& format, std::string_view prompt);

struct ToolChoice {
    enum class Kind : uint8_t { required, named, automatic } kind = Kind::required;
    std::string name;      // named
    bool parallel = true;  // several calls may come
};

struct AnswerGrammarOptions {
    ThinkingStart thinking = ThinkingStart::none;
    JsonSchemaOptions json;
};

// `tools_json`: OpenAI's list. Tools with "strict": true have their schemas read strictly, others leniently.
// Failure `unsupported` where a family's calls can't be told from text (automatic, without tags).
std::shared_ptr<const Grammar> tool_call_grammar(const AnswerFormat& format, std::string_view tools_json,
                                                 const ToolChoice& choice,
                                                 const AnswerGrammarOptions& options = {});
// `schema` empty: any JSON object.
std::shared_ptr<const Grammar> content_grammar(const AnswerFormat& format, std::string_view schema,
                                               const AnswerGrammarOptions& options = {});

}  // namespace coterie::text
