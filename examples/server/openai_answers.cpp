// /v1/chat/completions and /v1/completions, whole and streamed.
#include <fmt/format.h>

#include <random>

#include "openai.h"

namespace server {
namespace {

std::string fresh_id(const char* prefix) {
    static thread_local std::mt19937_64 random{std::random_device{}()};
    return fmt::format("{}-{:016x}{:016x}", prefix, random(), random());
}

json timings(const coterie_generation_statistics& s) {
    const double prompt_ms = double(s.prefill_us) / 1000, predicted_ms = double(s.decode_us) / 1000;
    const double prompt_n = double(s.prompt_tokens - s.cached_tokens),
                 predicted_n = double(s.generated_tokens);
    const auto ratio = [](double a, double b) { return b > 0 ? a / b : 0.0; };
    return {{"cache_n", s.cached_tokens},
            {"prompt_n", s.prompt_tokens - s.cached_tokens},
            {"prompt_ms", prompt_ms},
            {"prompt_per_token_ms", ratio(prompt_ms, prompt_n)},
            {"prompt_per_second", ratio(prompt_n * 1000, prompt_ms)},
            {"predicted_n", s.generated_tokens},
            {"predicted_ms", predicted_ms},
            {"predicted_per_token_ms", ratio(predicted_ms, predicted_n)},
            {"predicted_per_second", ratio(predicted_n * 1000, predicted_ms)}};
}

json call_json(const Piece& piece) {
    return {{"index", piece.index},
            {"id", piece.id},
            {"type", "function"},
            {"function",
             {{"name", piece.name}, {"arguments", piece.arguments.empty() ? "{}" : piece.arguments}}}};
}

// One request: n choices, one after the other in a stream, side by side in the engine.
struct Exchange {
    bool chat = true, echo = false, include_usage = false;
    std::string id, model;
    int64_t created = now_ns() / 1000000000;
    std::vector<std::unique_ptr<Answer>> answers;

    std::string finish_reason(const Answer& answer) const {
        const int f = answer.finish_reason();
        if (f == COTERIE_FINISH_LENGTH || f == COTERIE_FINISH_CONTEXT || f == COTERIE_FINISH_TIME)
            return "length";
        return answer.has_calls() ? "tool_calls" : "stop";
    }

    json usage() const {
        int64_t prompt = 0, cached = 0, generated = 0;
        for (const auto& answer : answers) {
            const coterie_generation_statistics s = answer->statistics();
            // n answers to one prompt count it once.
            prompt = chat ? s.prompt_tokens : prompt + s.prompt_tokens;
            cached = chat ? s.cached_tokens : cached + s.cached_tokens;
            generated += s.generated_tokens;
        }
        return {{"prompt_tokens", prompt},
                {"completion_tokens", generated},
                {"total_tokens", prompt + generated},
                {"prompt_tokens_details", {{"cached_tokens", cached}}}};
    }

    json envelope(bool chunk) const {
        return {{"id", id},
                {"object", chat ? (chunk ? "chat.completion.chunk" : "chat.completion") : "text_completion"},
                {"created", created},
                {"model", model},
                {"system_fingerprint", "fp_coterie"},
                {"choices", json::array()}};
    }

    // completions: four parallel lists instead of a list of objects.
    json logprobs_json(const json& list) const {
        if (list.empty()) return nullptr;
        if (chat) return {{"content", list}};
        json o{{"tokens", json::array()}, {"token_logprobs", json::array()}, {"top_logprobs", json::array()}};
        for (const json& one : list) {
            o["tokens"].push_back(one["token"]);
            o["token_logprobs"].push_back(one["logprob"]);
            json top = json::object();
            for (const json& other : one["top_logprobs"])
                top[other["token"].get<std::string>()] = other["logprob"];
            o["top_logprobs"].push_back(std::move(top));
        }
        return o;
    }

    json whole() const {
        json object = envelope(false);
        for (size_t i = 0; i < answers.size(); ++i) {
            const Whole all = gather(*answers[i]);
            json choice{{"index", i}};
            if (chat) {
                json message{{"role", "assistant"}, {"content", all.text}};
                if (!all.reasoning.empty())
                    message["reasoning_content"] = message["reasoning"] = all.reasoning;
                for (const Piece& call : all.calls) message["tool_calls"].push_back(call_json(call));
                choice["message"] = std::move(message);
            } else {
                choice["text"] = (echo ? answers[i]->question().prompt : "") + all.text;
            }
            choice["logprobs"] = logprobs_json(all.logprobs);
            choice["finish_reason"] = finish_reason(*answers[i]);
            object["choices"].push_back(std::move(choice));
        }
        object["usage"] = usage();
        object["timings"] = timings(answers.front()->statistics());
        return object;
    }

    json chunk(size_t index, json delta, const json& logprobs, const json& finish) const {
        json object = envelope(true);
        json choice{{"index", index}};
        choice[chat ? "delta" : "text"] = std::move(delta);
        if (!logprobs.empty()) choice["logprobs"] = logprobs_json(logprobs);
        choice["finish_reason"] = finish;
        object["choices"].push_back(std::move(choice));
        return object;
    }

    json delta(const Piece& piece) const {
        if (!chat) return piece.text;
        if (piece.kind == Piece::Kind::reasoning)
            return {{"reasoning_content", piece.text}, {"reasoning", piece.text}};
        if (piece.kind == Piece::Kind::call) return {{"tool_calls", json::array({call_json(piece)})}};
        return {{"content", piece.text}};
    }

    void write(Writer& writer) const {
        for (size_t i = 0; i < answers.size(); ++i) {
            Answer& answer = *answers[i];
            if (chat)
                writer.event(chunk(i, {{"role", "assistant"}, {"content", ""}}, json::array(), nullptr));
            else if (echo)
                writer.event(chunk(i, answer.question().prompt, json::array(), nullptr));
            Piece piece;
            while (answer.next(piece, 10)) {
                const bool nothing =
                    piece.text.empty() && piece.kind != Piece::Kind::call && piece.logprobs.empty();
                if (nothing)
                    writer.write(": ping\n\n");  // a long prompt: keeps clients and proxies waiting
                else
                    writer.event(chunk(i, delta(piece), piece.logprobs, nullptr));
            }
            json last = chunk(i, chat ? json::object() : json(""), json::array(), finish_reason(answer));
            if (i + 1 == answers.size()) last["timings"] = timings(answer.statistics());
            writer.event(last);
        }
        if (include_usage) {
            json object = envelope(true);
            object["usage"] = usage();
            writer.event(object);
        }
        writer.write("data: [DONE]\n\n");
    }
};

void respond(const json& request, httplib::Response& response, std::shared_ptr<Exchange> exchange) {
    if (!bool_of(request, "stream").value_or(false)) return reply(response, exchange->whole());
    if (const auto options = request.find("stream_options"); options != request.end() && options->is_object())
        exchange->include_usage = bool_of(*options, "include_usage").value_or(false);
    stream(
        response, "text/event-stream", [exchange](Writer& writer) { exchange->write(writer); },
        [](Writer& writer, const std::exception& error) {
            writer.event({{"error",
                           {{"message", error.what()},
                            {"type", "api_error"},
                            {"param", nullptr},
                            {"code", nullptr}}}});
            writer.write("data: [DONE]\n\n");
        });
}

size_t choices_of(const json& request) {
    const double n = number_of(request, "n").value_or(1);
    if (n < 1 || n > 16) throw HttpError(400, "'n' must be between 1 and 16");
    return size_t(n);
}

// Prompts of a completion: a string, strings, ids, or lists of ids.
std::vector<Question> read_prompts(const json& request) {
    const Question base = read_completion(request);
    std::vector<Question> questions;
    const auto add = [&](const json& prompt) {
        Question q = base;
        if (prompt.is_string())
            q.prompt = prompt;
        else
            for (const json& token : prompt) q.tokens.push_back(token.get<int32_t>());
        questions.push_back(std::move(q));
    };
    const auto prompt = request.find("prompt");
    if (prompt == request.end() || (!prompt->is_string() && !prompt->is_array()) || prompt->empty())
        throw HttpError(400, "'prompt' must be a string, an array of strings or an array of token ids");
    if (prompt->is_string() || prompt->front().is_number()) {
        add(*prompt);
    } else {
        if (prompt->size() > 64) throw HttpError(400, "'prompt' holds more than 64 prompts");
        for (const json& one : *prompt) {
            if (!one.is_string() && !one.is_array())
                throw HttpError(400, "'prompt' must hold strings or token ids");
            add(one);
        }
    }
    return questions;
}

}  // namespace

void add_openai_answers(Http& http, ModelPool& pool, Metrics& metrics) {
    http.post("/v1/chat/completions",
              [&](const httplib::Request& r, const std::string& body, httplib::Response& response) {
                  const json request = read_body(body);
                  const Peer peer(r, http);
                  const Question q = read_chat(request);
                  auto exchange = std::make_shared<Exchange>();
                  exchange->id = fresh_id("chatcmpl");
                  exchange->model = q.model;
                  for (size_t i = choices_of(request); i > 0; --i)
                      exchange->answers.push_back(
                          std::make_unique<Answer>(pool, metrics, q, [peer] { return peer.gone(); }));
                  respond(request, response, exchange);
              });
    http.post("/v1/completions",
              [&](const httplib::Request& r, const std::string& body, httplib::Response& response) {
                  const json request = read_body(body);
                  const Peer peer(r, http);
                  auto exchange = std::make_shared<Exchange>();
                  exchange->chat = false;
                  exchange->echo = bool_of(request, "echo").value_or(false);
                  exchange->id = fresh_id("cmpl");
                  for (const Question& q : read_prompts(request)) {
                      exchange->model = q.model;
                      for (size_t i = choices_of(request); i > 0; --i)
                          exchange->answers.push_back(
                              std::make_unique<Answer>(pool, metrics, q, [peer] { return peer.gone(); }));
                  }
                  respond(request, response, exchange);
              });
}

}  // namespace server
