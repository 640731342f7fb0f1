// What the opaque handles hold.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "coterie/coterie.h"
#include "engine/engine.h"
#include "model/model.h"
#include "text/answer.h"
#include "text/answer_grammar.h"
#include "text/chat_template.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

namespace coterie::capi {

// A model and what is made of its file on demand; shared by its engines.
class ModelData {
  public:
    // fallback_template: of the store that the file lies in, for files without one.
    explicit ModelData(std::shared_ptr<const Model> model, std::string fallback_template = {});

    const std::shared_ptr<const Model> model;
    const std::shared_ptr<const text::Tokenizer> tokenizer;

    // The file's own chat template, else the store's, else a built-in one chosen by its vocabulary.
    const text::ChatTemplate& chat_template() const;
    bool has_chat_template() const;
    text::AnswerFormat answer_format(const char* template_override) const;
    std::shared_ptr<const text::TokenTrie> token_trie() const;
    // What a zero in coterie_generation_options stands for; source tells where it comes from.
    SamplingOptions sampling_defaults(const char** source = nullptr) const;
    std::string render(const char* messages_json, const char* tools_json,
                       const coterie_chat_options& options) const;

  private:
    std::string template_source() const;
    const std::string fallback_template_;
    mutable std::mutex mutex_;
    mutable std::unique_ptr<text::ChatTemplate> template_;
    mutable std::shared_ptr<const text::TokenTrie> trie_;
};

struct EngineData {
    std::shared_ptr<const ModelData> model;
    std::unique_ptr<Engine> engine;
};

// How the answer to a chat is sorted into fields; without a format it isn't.
struct Reading {
    std::optional<text::AnswerFormat> format;
    text::AnswerOptions answer;
    text::ThinkingStart thinking = text::ThinkingStart::none;
};

text::ChatOptions chat_options(const coterie_chat_options& options);

}  // namespace coterie::capi

struct coterie_model {
    std::shared_ptr<const coterie::capi::ModelData> data;
};

struct coterie_engine {
    std::shared_ptr<coterie::capi::EngineData> data;
};

struct coterie_generation {
    std::shared_ptr<coterie::capi::EngineData> engine;
    std::shared_ptr<coterie::Generation> generation;
    uint64_t seed = 0;
    coterie::capi::Reading reading;
    std::optional<coterie::text::AnswerParser> parser;  // of a chat
    bool parser_finished = false;
    std::deque<coterie::text::AnswerEvent> events;  // sorted, not yet taken
    // What the last event's pointers point to.
    std::string text, id, name;
    std::vector<coterie_token_logprob> top;
};
