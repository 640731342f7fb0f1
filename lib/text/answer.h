// What a model says, sorted into the field it belongs to: reasoning, content, tool calls.
// The parser is a machine over single bytes, so its events, joined per kind, don't depend on how the stream
// was cut. It holds back only what could still become markup, half a code point, and white space that may
// precede a call. Nothing is lost: what turns out not to be a call comes back as content, word for word. Not
// here: prompts (chat templates) and the grammars that force a call (answer_grammar.h).
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace coterie::text {

struct AnswerEvent {
    enum class Kind : uint8_t { reasoning, content, call_begin, call_arguments, call_end };
    Kind kind = Kind::content;
    std::string text;      // reasoning, content: the text; call_arguments: a piece of one JSON object
    int call = 0;          // calls: 0, 1, ... in the order they begin
    std::string id, name;  // call_begin
    bool complete =
        true;  // call_end: false if the call broke off and its arguments were closed by the parser
};

// How a family writes a call between its tags.
enum class CallSyntax : uint8_t {
    none,
    json,    // {"name": ..., "arguments": {...}} or a list of such
    xml,     // <function=f><parameter=p>value</parameter></function>, and what is built alike
    named,   // f SEPARATOR {...}
    python,  // [f(a=1), g(b="x")]
    gemma,   // call:f{a:1,b:<|"|>x<|"|>}
    llama,   // JSON, Python or <function=f>{...} without tags, only at the start of the content
};

// The markup of CallSyntax::xml. A call is: function_open f name_end (parameter_open p key_end value_open v
// value_close)* function_close.
struct XmlMarkup {
    std::string function_open, name_end, parameter_open, key_end, value_open, value_close, function_close;
    bool newlines = false;          // a value lies between line feeds that don't belong to it
    bool string_attribute = false;  // the key is followed by `" string="true` or `" string="false`
};

// Whatever the family, with tools a call may also be written as <tool_call>{...}</tool_call>: that is how
// tools are explained to models whose template has no words for them.
struct AnswerFormat {
    std::string family = "plain";
    std::string think_open, think_close;  // both empty: the family doesn't think aloud
    CallSyntax syntax = CallSyntax::none;
    std::string calls_open, calls_close;  // around all calls together; may be empty
    std::string call_open, call_close;    // around each
    std::string separator, id_separator;  // CallSyntax::named: between name and arguments, name and call id
    bool list = false;                    // calls are written as one JSON list (reading, both are understood)
    bool fenced =
        false;  // CallSyntax::named: the arguments stand in a ```json fence, the name after `function`
    XmlMarkup xml;
    std::vector<std::string> dropped;  // markup without meaning for us, such as <|START_RESPONSE|>
    bool harmony = false;              // channels of gpt-oss: <|channel|>analysis<|message|>...
};

// Chooses by what the chat template says, else by the architecture's name (general.architecture of a GGUF
// file).
AnswerFormat detect_answer_format(std::string_view template_source, std::string_view architecture);

// By name, for a caller who knows better; throws a Failure that lists the names. `answer_families` lists
// them.
AnswerFormat answer_format(std::string_view family);
const std::vector<std::string>& answer_families();

// Whether the rendered prompt ends inside thinking: its last think_open tag is at the end, white space apart.
bool prompt_opens_thinking(const AnswerFormat& format, std::string_view prompt);

struct AnswerOptions {
    bool thinking_open = false;  // see prompt_opens_thinking
    bool tools = false;          // without tools there are no calls: their markup is content
    std::string
        tools_json;  // the tools as OpenAI's list, to type XML arguments and to know names; may be empty
    bool whole_calls =
        false;             // hold a call back until it is complete; a broken one then comes back as content
    uint64_t id_seed = 0;  // call ids are nine letters and digits made from this and the call's number
};

class AnswerMachine;

class AnswerParser {
  public:
    explicit AnswerParser(AnswerFormat format, AnswerOptions options = {});
    AnswerParser(AnswerParser&&) noexcept;
    AnswerParser& operator=(AnswerParser&&) noexcept;
    ~AnswerParser();

    // Appends the events that this piece of the answer completes. Any cut is allowed, also within a code
    // point.
    void push(std::string_view text, std::vector<AnswerEvent>& events);
    // The answer is over: what was held back comes out, open calls are closed. The parser then takes no more.
    void finish(std::vector<AnswerEvent>& events);
    // Inside reasoning now, as far as pushed text tells: where a grammar for the content must not begin yet.
    bool reasoning() const;

  private:
    std::unique_ptr<AnswerMachine> machine_;
};

}  // namespace coterie::text
