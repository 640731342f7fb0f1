#include "conversation.h"

#include <stdexcept>

void ChatSettings::set(const std::string& name, const std::string& value) {
    size_t used = 0;
    double number = 0;
    try {
        number = std::stod(value, &used);
    } catch (const std::exception&) {
        used = 0;
    }
    if (used == 0 || used != value.size()) throw std::invalid_argument("'" + value + "' is not a number");
    if (name == "temperature")
        temperature = number == 0 ? -1.0f : float(number);
    else if (name == "top_p")
        top_p = float(number);
    else if (name == "min_p")
        min_p = float(number);
    else if (name == "top_k")
        top_k = number == 0 ? -1 : int32_t(number);
    else if (name == "repeat_penalty")
        repeat_penalty = float(number);
    else if (name == "max_tokens")
        max_tokens = int64_t(number);
    else if (name == "seed")
        seed = uint64_t(number);
    else if (name == "thinking")
        thinking = number != 0 ? 1 : -1;
    else
        throw std::invalid_argument(
            "'" + name +
            "' is not known; use temperature, top_p, min_p, top_k, repeat_penalty, max_tokens, "
            "seed or thinking");
}

coterie_generation_options ChatSettings::options() const {
    coterie_generation_options o = COTERIE_GENERATION_OPTIONS_INIT;
    if (temperature < 0)
        o.flags |= COTERIE_GREEDY;
    else
        o.temperature = temperature;
    o.top_p = top_p;
    o.min_p = min_p;
    o.top_k = top_k;
    o.repeat_penalty = repeat_penalty;
    o.max_tokens = max_tokens;
    o.seed = seed;
    return o;
}

void Conversation::reset() {
    messages_ = nlohmann::json::array();
}

void Conversation::set_system(std::string text) {
    system_ = std::move(text);
    reset();
}

void Conversation::ask(const std::string& text, const ChatSettings& settings, const std::atomic<bool>& stop,
                       const std::function<void(const std::string&, bool)>& show) {
    nlohmann::json messages = nlohmann::json::array();
    if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
    for (const auto& message : messages_) messages.push_back(message);
    const nlohmann::json question = {{"role", "user"}, {"content", text}};
    messages.push_back(question);

    coterie_chat_options chat = COTERIE_CHAT_OPTIONS_INIT;
    chat.thinking = settings.thinking;
    const auto lenient = nlohmann::json::error_handler_t::replace;
    const std::string answer = follow(
        engine_.chat(messages.dump(-1, ' ', false, lenient), {}, chat, settings.options()), stop, show);
    messages_.push_back(question);
    messages_.push_back({{"role", "assistant"}, {"content", answer}});
}

void Conversation::complete(const std::string& text, const ChatSettings& settings,
                            const std::atomic<bool>& stop,
                            const std::function<void(const std::string&, bool)>& show) {
    follow(engine_.complete(text, settings.options()), stop, show);
}

std::string Conversation::follow(coterie::Generation generation, const std::atomic<bool>& stop,
                                 const std::function<void(const std::string&, bool)>& show) {
    std::string answer;
    coterie_event event;
    for (;;) {
        if (stop.load()) generation.cancel();
        if (!generation.next(event, 100)) continue;
        if (event.kind == COTERIE_EVENT_FINISHED) break;
        const bool reasoning = event.kind == COTERIE_EVENT_REASONING;
        if (!reasoning && event.kind != COTERIE_EVENT_CONTENT && event.kind != COTERIE_EVENT_TOKEN) continue;
        const std::string piece(event.text, event.length);
        if (!reasoning) answer += piece;
        show(piece, reasoning);
    }
    last_ = generation.statistics();
    return answer;
}
