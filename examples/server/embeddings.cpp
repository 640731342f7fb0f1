// /api/embed, /api/embeddings and /v1/embeddings.
#include "embeddings.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "generation.h"
#include "ollama.h"

namespace server {
namespace {

constexpr size_t most_inputs = 2048;

int cancel_when_gone(void* user, const char*, uint64_t, uint64_t) {
    return (*static_cast<const std::function<bool()>*>(user))() ? 1 : 0;
}

// Standard base64 of little-endian float32: what OpenAI's clients ask for by themselves.
std::string base64_of(const std::vector<float>& vector) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::vector<unsigned char> bytes(vector.size() * sizeof(float));
    if (!bytes.empty()) std::memcpy(bytes.data(), vector.data(), bytes.size());
    std::string text;
    for (size_t i = 0; i < bytes.size(); i += 3) {
        uint32_t three = 0;
        for (size_t j = 0; j < 3; ++j) three = three << 8 | (i + j < bytes.size() ? bytes[i + j] : 0u);
        for (size_t j = 0; j < 4; ++j)
            text += i + j <= bytes.size() ? digits[three >> (18 - 6 * j) & 63] : '=';
    }
    return text;
}

int64_t dimensions_of(const json& request) {
    const double n = number_of(request, "dimensions").value_or(0);
    if (n < 0 || n > 1e9) throw HttpError(400, "'dimensions' must be a positive number");
    return int64_t(n);
}

// A text, texts and, if allowed, token ids or lists of them.
void read_input(const json& request, const char* key, bool with_tokens, EmbeddingQuestion& q) {
    const auto found = request.find(key);
    if (found == request.end() || found->is_null()) return;
    const HttpError wrong(400, with_tokens ? "'input' must be a string, an array of strings or token ids"
                                           : "invalid input type");
    if (found->is_string()) {
        if (!found->get_ref<const std::string&>().empty()) q.texts.push_back(*found);
        return;
    }
    if (!found->is_array()) throw wrong;
    const bool flat = with_tokens && !found->empty() && found->front().is_number_integer();
    const json list = flat ? json::array({*found}) : *found;
    if (list.size() > most_inputs)
        throw HttpError(400,
                        fmt::format("{} inputs are too many; at most {} at once", list.size(), most_inputs));
    for (const json& one : list) {
        if (one.is_string())
            q.texts.push_back(one);
        else if (with_tokens && one.is_array())
            q.tokens.push_back(one.get<std::vector<int32_t>>());
        else
            throw wrong;
    }
    if (!q.texts.empty() && !q.tokens.empty()) throw wrong;
}

EmbeddingQuestion read_question(const json& request, const char* input, bool with_tokens) {
    EmbeddingQuestion q;
    q.model = string_of(request, "model");
    if (q.model.empty()) throw HttpError(400, "model is required");
    q.keep_alive = keep_alive_of(request);
    q.dimensions = dimensions_of(request);
    q.truncate = bool_of(request, "truncate").value_or(!with_tokens);
    read_input(request, input, with_tokens, q);
    if (const auto options = request.find("options"); options != request.end() && options->is_object()) {
        Sampling sampling;
        sampling.read(*options);
        q.context = sampling.context;
    }
    return q;
}

Embeddings answer(Http& http, ModelPool& pool, Metrics& metrics, const httplib::Request& r,
                  const EmbeddingQuestion& q) {
    const Peer peer(r, http);
    return embed(pool, metrics, q, [peer] { return peer.gone(); });
}

// Ollama's endpoints word a missing model in another way than its other ones.
void missing_in_their_words(const ModelPool& pool, const std::string& model) {
    try {
        pool.facts(model);
    } catch (const HttpError& error) {
        if (error.status != 404) throw;
        throw HttpError(404, fmt::format("model \"{}\" not found, try pulling it first", model));
    }
}

}  // namespace

Embeddings embed(ModelPool& pool, Metrics& metrics, const EmbeddingQuestion& q,
                 const std::function<bool()>& gone) {
    const auto start = Clock::now();
    pool.health().admit();
    const ModelPool::Lease lease = pool.acquire(q.model, q.keep_alive, q.context, gone);
    Embeddings result;
    result.load_ns = lease.load_ns();
    const size_t whole = size_t(lease->info.embedding);
    if (q.dimensions > int64_t(whole))
        throw HttpError(
            400, fmt::format("{} dimensions were asked for, and {} has {}", q.dimensions, q.model, whole));
    const size_t width = q.dimensions > 0 ? size_t(q.dimensions) : whole;
    std::vector<coterie_input> inputs;
    for (const std::string& text : q.texts) inputs.push_back({text.data(), text.size(), nullptr, 0});
    for (const std::vector<int32_t>& ids : q.tokens) inputs.push_back({nullptr, 0, ids.data(), ids.size()});
    std::vector<float> all(inputs.size() * width);
    coterie_reading_options options = COTERIE_READING_OPTIONS_INIT;
    options.dimensions = int32_t(q.dimensions);
    options.truncate = q.truncate ? 1 : 0;
    options.progress = cancel_when_gone;
    options.progress_user = const_cast<std::function<bool()>*>(&gone);
    if (!inputs.empty()) try {
            coterie::check([&](coterie_error* e) {
                return coterie_embed(lease->engine->get(), inputs.data(), inputs.size(), &options, all.data(),
                                     all.size(), &result.tokens, e);
            });
        } catch (const coterie::Error& error) {
            if (error.status() == COTERIE_CANCELLED) throw ClientGone();
            // Ollama's words for what its clients look for.
            if (error.status() == COTERIE_TOO_LONG)
                throw HttpError(400,
                                std::string("the input length exceeds the context length: ") + error.what());
            throw;
        }
    for (size_t i = 0; i < inputs.size(); ++i) {
        result.vectors.emplace_back(all.begin() + ptrdiff_t(i * width),
                                    all.begin() + ptrdiff_t((i + 1) * width));
        for (const float value : result.vectors.back())
            if (!std::isfinite(value))
                throw HttpError(500, fmt::format("the embedding of input {} is not finite", i));
    }
    metrics.prompt_tokens += result.tokens;
    result.total_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
    return result;
}

void add_embeddings(Http& http, ModelPool& pool, Metrics& metrics) {
    http.post("/api/embed",
              [&](const httplib::Request& r, const std::string& body, httplib::Response& response) {
                  const EmbeddingQuestion q = read_question(read_body(body), "input", false);
                  missing_in_their_words(pool, q.model);
                  const Embeddings e = answer(http, pool, metrics, r, q);
                  reply(response, {{"model", q.model},
                                   {"embeddings", e.vectors},
                                   {"total_duration", std::max<int64_t>(1, e.total_ns)},
                                   {"load_duration", std::max<int64_t>(1, e.load_ns)},
                                   {"prompt_eval_count", e.tokens}});
              });
    http.post("/api/embeddings",
              [&](const httplib::Request& r, const std::string& body, httplib::Response& response) {
                  EmbeddingQuestion q = read_question(read_body(body), "prompt", false);
                  missing_in_their_words(pool, q.model);
                  if (q.texts.size() > 1) throw HttpError(400, "invalid input type");
                  const Embeddings e = answer(http, pool, metrics, r, q);
                  reply(response, {{"embedding", e.vectors.empty() ? std::vector<float>() : e.vectors[0]}});
              });
    http.post("/v1/embeddings", [&](const httplib::Request& r, const std::string& body,
                                    httplib::Response& response) {
        const json request = read_body(body);
        const EmbeddingQuestion q = read_question(request, "input", true);
        const std::string format = string_of(request, "encoding_format");
        if (!format.empty() && format != "float" && format != "base64")
            throw HttpError(400, "'encoding_format' must be float or base64");
        pool.facts(q.model);
        if (q.texts.empty() && q.tokens.empty()) throw HttpError(400, "'input' must not be empty");
        const Embeddings e = answer(http, pool, metrics, r, q);
        json data = json::array();
        for (const std::vector<float>& vector : e.vectors)
            data.push_back({{"object", "embedding"},
                            {"index", data.size()},
                            {"embedding", format == "base64" ? json(base64_of(vector)) : json(vector)}});
        reply(response, {{"object", "list"},
                         {"data", std::move(data)},
                         {"model", q.model},
                         {"usage", {{"prompt_tokens", e.tokens}, {"total_tokens", e.tokens}}}});
    });
}

}  // namespace server
