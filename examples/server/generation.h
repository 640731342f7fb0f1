// One question of either API, put to the engine, and its answer in pieces. What the APIs call things is not
// known here.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "http.h"
#include "models.h"

namespace server {

// Sampling and limits as a request gives them; what it leaves out comes from the model, then from here.
struct Sampling {
    coterie_generation_options options = COTERIE_GENERATION_OPTIONS_INIT;
    std::vector<std::string> stop;
    std::vector<coterie_bias> bias;
    std::string schema, grammar, tool_choice;  // empty: none, none, the model decides
    int64_t context = 0;                       // num_ctx; 0: what the model was loaded with

    // Ollama's option names, as in its `options` object. Unknown ones are ignored; HttpError 400 for a known
    // one of the wrong type.
    void read(const json& object);
    void set_format(const json& format);  // "json" or a schema
    // Pointers into this object: call last, and keep the object where it is.
    const coterie_generation_options& finished();

  private:
    std::vector<const char*> stop_pointers_;
};

enum class Thinking { by_default, on, off };

struct Question {
    std::string model;  // as the client wrote it
    json messages;      // of a chat
    json tools;         // null: none
    Thinking thinking = Thinking::by_default;
    std::string effort;         // "low", ...; empty: none given
    std::string chat_template;  // of the request
    json template_variables;    // null: none
    bool truncate = true;       // forget the oldest messages when the context is too small
    bool continue_last = false;
    bool complete = false;        // not a chat: continue the tokens or the text
    std::string prompt;           // complete
    std::vector<int32_t> tokens;  // complete, when given as ids
    std::string suffix;           // complete: what comes after the answer
    std::vector<int32_t> before;  // a chat's: earlier turns as Ollama's `context` gave them
    std::optional<double> keep_alive;
    bool logprobs = false;
    int top_logprobs = 0;
    json base = json::object();     // options that the API has for requests without them
    json options = json::object();  // the request's, in Ollama's names
    const char* ability = "chat";   // what a model made for embeddings alone is said not to support
    bool store_messages = false;    // put the store's system text and messages before the request's
    Sampling sampling;              // format, bias: the rest is filled in from base, the model and options
};

struct Piece {
    enum class Kind { content, reasoning, call };
    Kind kind = Kind::content;
    std::string text;
    int index = 0;  // of a call
    std::string id, name, arguments;
    json logprobs = json::array();  // of the tokens since the last piece: token, logprob, bytes, top_logprobs
};

class Answer {
  public:
    // Loads the model, checks, starts. Throws HttpError or coterie::Error before anything was generated.
    Answer(ModelPool& pool, Metrics& metrics, Question question, std::function<bool()> gone);
    ~Answer();
    Answer(const Answer&) = delete;
    Answer& operator=(const Answer&) = delete;

    // Waits for a piece; false at the end. With `patience` it also returns, with an empty text, when nothing
    // came within those seconds. Throws ClientGone when nobody waits.
    bool next(Piece& piece, double patience = -1);

    const Question& question() const { return question_; }
    LoadedModel& model() const { return *lease_; }
    int finish_reason() const { return finish_reason_; }
    bool has_calls() const { return calls_ > 0; }
    bool truncated() const { return truncated_; }
    coterie_generation_statistics statistics() const { return generation_->statistics(); }
    int64_t load_ns() const { return lease_.load_ns(); }
    int64_t total_ns() const;
    std::vector<int32_t> tokens() const { return generation_->tokens(); }  // prompt and answer

  private:
    void put_store_messages();
    void fit_context();
    void put_before();
    coterie::Generation begin();
    void add_logprob(const coterie_event& event);
    std::string render() const;
    coterie_chat_options chat_options() const;

    const Clock::time_point start_ = Clock::now();
    Metrics& metrics_;
    Question question_;
    std::function<bool()> gone_;
    ModelPool::Lease lease_;
    std::string messages_, tools_, variables_, prompt_;
    std::optional<coterie::Generation> generation_;
    int finish_reason_ = 0, calls_ = 0;
    bool truncated_ = false, ended_ = false;
    Piece call_;
    json logprobs_ = json::array();
};

void read_tools(const json& request, Question& q);  // tools and tool_choice, HttpError 400

// An answer to its end.
struct Whole {
    std::string text, reasoning;
    std::vector<Piece> calls;
    json logprobs = json::array();
};
Whole gather(Answer& answer);

// The prompt for what stands between two texts; HttpError 400 for a model that was not trained for it.
std::vector<int32_t> infill_tokens(const LoadedModel& model, const std::string& before,
                                   const std::string& after);

// {"a": number} -> that number; nothing when absent or null; HttpError 400 when it is something else.
std::optional<double> number_of(const json& object, const char* key);
std::optional<bool> bool_of(const json& object, const char* key);
std::string string_of(const json& object, const char* key);

}  // namespace server
