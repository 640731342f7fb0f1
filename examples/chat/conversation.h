// One conversation with a model: the messages so far, the options, and an answer streamed to a callback.
#pragma once
#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "coterie/coterie.hpp"

struct ChatSettings {
    float temperature = 0.0f;  // 0: the library's default; negative: greedy
    float top_p = 0.0f, min_p = 0.0f, repeat_penalty = 0.0f;
    int32_t top_k = 0;
    int64_t max_tokens = 0;
    uint64_t seed = 0;
    int32_t thinking = 0;  // 1 on, -1 off, 0 the template's default

    // "temperature 0.7" and the like; throws std::invalid_argument with the names there are.
    void set(const std::string& name, const std::string& value);
    coterie_generation_options options() const;
};

class Conversation {
  public:
    explicit Conversation(coterie::Engine& engine) : engine_(engine) {}

    void reset();
    void set_system(std::string text);
    // Streams the answer: reasoning is true for text of the thinking. Stops when `stop` becomes true.
    void ask(const std::string& text, const ChatSettings& settings, const std::atomic<bool>& stop,
             const std::function<void(const std::string& piece, bool reasoning)>& show);
    // Streams the continuation of a text, apart from the conversation.
    void complete(const std::string& text, const ChatSettings& settings, const std::atomic<bool>& stop,
                  const std::function<void(const std::string& piece, bool reasoning)>& show);
    const coterie_generation_statistics& last() const { return last_; }

  private:
    // All of a generation, shown as it comes; returns what is not reasoning.
    std::string follow(coterie::Generation generation, const std::atomic<bool>& stop,
                       const std::function<void(const std::string& piece, bool reasoning)>& show);
    coterie::Engine& engine_;
    std::string system_;
    nlohmann::json messages_ = nlohmann::json::array();
    coterie_generation_statistics last_ = COTERIE_GENERATION_STATISTICS_INIT;
};
