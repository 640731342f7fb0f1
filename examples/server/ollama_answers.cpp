// /api/chat and /api/generate.
#include <fmt/format.h>

#include "ollama.h"

namespace server {
namespace {

const char* done_reason(int finish) {
    return finish == COTERIE_FINISH_LENGTH || finish == COTERIE_FINISH_CONTEXT ||
                   finish == COTERIE_FINISH_TIME
               ? "length"
               : "stop";
}

void read_think(const json& request, Question& q) {
    const auto found = request.find("think");
    if (found == request.end() || found->is_null()) return;
    if (found->is_boolean()) {
        q.thinking = found->get<bool>() ? Thinking::on : Thinking::off;
        return;
    }
    if (found->is_string())
        for (const char* level : {"low", "medium", "high", "max"})
            if (*found == level) {
                q.thinking = Thinking::on;
                q.effort = *found == "max" ? "high" : level;
                return;
            }
    throw HttpError(400, "invalid think value: " + text_of(*found) +
                             " (must be \"high\", \"medium\", \"low\", \"max\", true, or false)");
}

// What chat and generate have in common.
Question read_question(const json& request) {
    Question q;
    q.model = string_of(request, "model");
    if (q.model.empty()) throw HttpError(400, "model is required");
    q.keep_alive = keep_alive_of(request);
    read_think(request, q);
    q.truncate = bool_of(request, "truncate").value_or(true);
    q.base = {{"temperature", 0.8}, {"top_k", 40}, {"top_p", 0.9}, {"min_p", 0.0}};
    if (const auto options = request.find("options"); options != request.end() && !options->is_null()) {
        if (!options->is_object()) throw HttpError(400, "options must be an object");
        q.options = *options;
    }
    if (bool_of(request, "shift").value_or(true)) q.sampling.options.flags |= COTERIE_SHIFT_CONTEXT;
    if (const auto format = request.find("format"); format != request.end()) q.sampling.set_format(*format);
    q.sampling.grammar = string_of(request, "grammar");
    q.logprobs = bool_of(request, "logprobs").value_or(false);
    const double top = number_of(request, "top_logprobs").value_or(0);
    if (top < 0 || top > 20) throw HttpError(400, "top_logprobs must be between 0 and 20");
    q.top_logprobs = int(top);
    return q;
}

json with_metrics(json object, const Answer& answer) {
    const coterie_generation_statistics s = answer.statistics();
    object["done"] = true;
    object["done_reason"] = done_reason(answer.finish_reason());
    object["total_duration"] = std::max<int64_t>(1, answer.total_ns());
    object["load_duration"] = answer.load_ns();
    object["prompt_eval_count"] = s.prompt_tokens;
    object["prompt_eval_duration"] = std::max<int64_t>(1, s.prefill_us * 1000);
    object["eval_count"] = s.generated_tokens;
    object["eval_duration"] = std::max<int64_t>(1, s.decode_us * 1000);
    if (answer.truncated()) object["truncated"] = true;
    return object;
}

json call_json(const Piece& piece) {
    json arguments = json::parse(piece.arguments.empty() ? "{}" : piece.arguments, nullptr, false);
    if (!arguments.is_object()) arguments = json::object();
    return {
        {"id", piece.id},
        {"function", {{"index", piece.index}, {"name", piece.name}, {"arguments", std::move(arguments)}}}};
}

json head(const Answer& answer) {
    return {{"model", answer.question().model}, {"created_at", rfc3339(now_ns())}};
}

// The two endpoints differ in where text goes.
class Shape {
  public:
    explicit Shape(bool is_chat) : chat_(is_chat) {}

    json chunk(const Answer& answer, const Piece& piece) const {
        json object = head(answer);
        const bool reasoning = piece.kind == Piece::Kind::reasoning;
        json& at = chat_ ? object["message"] : object;
        if (chat_) at["role"] = "assistant";
        at[chat_ ? "content" : "response"] = piece.kind == Piece::Kind::content ? piece.text : "";
        if (reasoning) at["thinking"] = piece.text;
        if (piece.kind == Piece::Kind::call) at["tool_calls"] = json::array({call_json(piece)});
        object["done"] = false;
        if (!piece.logprobs.empty()) object["logprobs"] = piece.logprobs;
        return object;
    }

    json last(const Answer& answer, const Whole& all, bool streamed) const {
        json object = head(answer);
        json& at = chat_ ? object["message"] : object;
        if (chat_) at["role"] = "assistant";
        at[chat_ ? "content" : "response"] = streamed ? "" : all.text;
        if (!streamed && !all.reasoning.empty()) at["thinking"] = all.reasoning;
        if (!streamed)
            for (const Piece& call : all.calls) at["tool_calls"].push_back(call_json(call));
        if (!streamed && !all.logprobs.empty()) object["logprobs"] = all.logprobs;
        object = with_metrics(std::move(object), answer);
        if (!chat_ && !answer.question().complete) object["context"] = answer.tokens();
        return object;
    }

  private:
    const bool chat_;
};

void respond(httplib::Response& response, std::shared_ptr<Answer> answer, Shape shape, bool streamed) {
    if (!streamed) {
        const Whole all = gather(*answer);
        return reply(response, shape.last(*answer, all, false));
    }
    // Failures before the first piece still get a status of their own.
    auto first = std::make_shared<Piece>();
    const bool any = answer->next(*first);
    stream(
        response, "application/x-ndjson",
        [answer, shape, first, any](Writer& writer) {
            Piece piece = *first;
            Whole all;
            for (bool more = any; more; more = answer->next(piece)) {
                if (piece.kind == Piece::Kind::content) all.text += piece.text;
                writer.line(shape.chunk(*answer, piece));
            }
            writer.line(shape.last(*answer, all, true));
        },
        [](Writer& writer, const std::exception& error) {
            writer.line({{"error", error.what()}});
        });
}

// Requests without anything to answer load or unload.
bool load_only(const json& request, httplib::Response& response, ModelPool& pool, const Peer& peer,
               bool chat) {
    const std::string model = string_of(request, "model");
    const auto keep = keep_alive_of(request);
    pool.facts(model);  // also for a model that is not loaded: is there one?
    json object{{"model", model}, {"created_at", rfc3339(now_ns())}};
    if (chat)
        object["message"] = {{"role", "assistant"}, {"content", ""}};
    else
        object["response"] = "";
    object["done"] = true;
    if (keep && *keep == 0) {
        pool.unload(model);
        object["done_reason"] = "unload";
    } else {
        Sampling sampling;
        if (request.contains("options") && request["options"].is_object()) sampling.read(request["options"]);
        pool.acquire(model, keep, sampling.context, [&] { return peer.gone(); });
        object["done_reason"] = "load";
    }
    reply(response, object);
    return true;
}

bool has_pictures(const json& object) {
    const auto images = object.find("images");
    return images != object.end() && images->is_array() && !images->empty();
}

[[noreturn]] void refuse_pictures() {
    throw HttpError(400, "this server reads text only: send the request without images");
}

}  // namespace

std::optional<double> keep_alive_of(const json& request) {
    const auto found = request.find("keep_alive");
    if (found == request.end() || found->is_null()) return std::nullopt;
    if (found->is_number()) return found->get<double>();
    if (!found->is_string())
        throw HttpError(400, "keep_alive must be a number of seconds or a duration such as \"5m\"");
    try {
        return parse_duration(found->get<std::string>());
    } catch (const std::invalid_argument& error) {
        throw HttpError(400, error.what());
    }
}

json checked_messages(const json& request) {
    json messages = request.value("messages", json::array());
    if (messages.is_null()) messages = json::array();
    if (!messages.is_array()) throw HttpError(400, "messages must be an array");
    for (json& message : messages) {
        if (!message.is_object())
            throw HttpError(400, "each message must be an object with role and content");
        std::string role = string_of(message, "role");
        for (char& c : role) c = char(std::tolower(static_cast<unsigned char>(c)));
        message["role"] = role == "developer" ? "system" : role;
        if (has_pictures(message)) refuse_pictures();
        message.erase("images");
        json& content = message["content"];
        if (content.is_null()) content = "";
        if (content.is_array())
            for (const json& part : content)
                if (part.is_object() && part.value("type", "text") != "text") refuse_pictures();
        // Front ends send the thinking of earlier answers back inside the text.
        if (role == "assistant" && content.is_string()) {
            const std::string text = content;
            const size_t end = text.find("</think>");
            if (text.compare(0, 7, "<think>") == 0 && end != std::string::npos) {
                const size_t start = text.find_first_not_of(" \r\n\t", end + 8);
                content = start == std::string::npos ? "" : text.substr(start);
            }
        }
    }
    return messages;
}

void add_ollama_answers(Http& http, ModelPool& pool, Metrics& metrics) {
    http.post("/api/chat", [&](const httplib::Request& r, const std::string& body,
                               httplib::Response& response) {
        const json request = read_body(body);
        const Peer peer(r, http);
        Question q = read_question(request);
        q.messages = checked_messages(request);
        if (q.messages.empty() && load_only(request, response, pool, peer, true)) return;
        read_tools(request, q);  // also tool_choice, which Ollama ignores
        q.continue_last = q.messages.back().value("role", "") == "assistant";
        q.store_messages = true;
        auto answer = std::make_shared<Answer>(pool, metrics, std::move(q), [peer] { return peer.gone(); });
        respond(response, answer, Shape(true), bool_of(request, "stream").value_or(true));
    });

    http.post("/api/generate", [&](const httplib::Request& r, const std::string& body,
                                   httplib::Response& response) {
        const json request = read_body(body);
        const Peer peer(r, http);
        Question q = read_question(request);
        const std::string prompt = string_of(request, "prompt");
        const std::string system = string_of(request, "system");
        q.chat_template = string_of(request, "template");
        q.ability = "generate";
        const bool raw = bool_of(request, "raw").value_or(false);
        if (const auto before = request.find("context"); before != request.end() && !before->is_null()) {
            if (!before->is_array()) throw HttpError(400, "context must be an array of token ids");
            q.before = before->get<std::vector<int32_t>>();
        }
        if (raw && (!system.empty() || !q.chat_template.empty() || !q.before.empty()))
            throw HttpError(400, "raw mode does not support template, system, or context");
        if (has_pictures(request)) refuse_pictures();
        q.suffix = string_of(request, "suffix");
        if (prompt.empty() && q.suffix.empty() && load_only(request, response, pool, peer, false)) return;
        if (raw || !q.suffix.empty()) {
            q.complete = true;
            q.prompt = prompt;
        } else {
            q.messages = json::array();
            if (!system.empty()) q.messages.push_back({{"role", "system"}, {"content", system}});
            q.messages.push_back({{"role", "user"}, {"content", prompt}});
            q.store_messages = q.before.empty();  // they are in the earlier turns
        }
        auto answer = std::make_shared<Answer>(pool, metrics, std::move(q), [peer] { return peer.gone(); });
        respond(response, answer, Shape(false), bool_of(request, "stream").value_or(true));
    });
}

}  // namespace server
