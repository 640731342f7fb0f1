// Embeddings, logits and likelihoods of given texts.
#include "engine/reading.h"

#include <cmath>

#include "guard.h"
#include "handles.h"

using namespace coterie;
using namespace coterie::capi;

namespace {

constexpr size_t most_inputs = size_t(1) << 24;

std::vector<Tokens> read_inputs(const ModelData& model, const coterie_input* inputs, size_t count) {
    if (count > 0) need(inputs, "inputs");
    if (count > most_inputs)
        fail(Status::invalid_argument, "{} inputs are too many; {} at most", count, most_inputs);
    std::vector<Tokens> all;
    for (size_t i = 0; i < count; ++i) {
        const coterie_input& input = inputs[i];
        if (input.text && input.tokens)
            fail(Status::invalid_argument, "input {} has both a text and tokens; leave one NULL", i);
        if (input.text)
            all.push_back(model.tokenizer->encode({input.text, input.length}, true, false));
        else if (input.tokens)
            all.emplace_back(input.tokens, input.tokens + input.count);
        else
            all.emplace_back();
        if (all.back().empty())
            fail(Status::invalid_argument, "input {} is empty; give at least one token", i);
    }
    return all;
}

void fit(std::vector<Tokens>& inputs, int64_t context_tokens, bool truncate) {
    for (size_t i = 0; i < inputs.size(); ++i) {
        const int64_t n = int64_t(inputs[i].size());
        if (n <= context_tokens) continue;
        if (!truncate)
            fail(Status::too_long,
                 "input {} has {} tokens but the context holds {}; shorten it, ask for truncation or create "
                 "the "
                 "engine with a larger context",
                 i, n, context_tokens);
        inputs[i].resize(size_t(context_tokens));
    }
}

size_t count_tokens(const std::vector<Tokens>& inputs) {
    size_t n = 0;
    for (const Tokens& input : inputs) n += input.size();
    return n;
}

ReadingOptions reading_options(const coterie_reading_options& o) {
    if (o.time_limit_ms < 0) fail(Status::invalid_argument, "time_limit_ms can't be negative");
    return {o.priority, std::chrono::milliseconds(o.time_limit_ms), progress_of(o.progress, o.progress_user)};
}

// As asked, else as the file says, else the mean.
Pooling pooling_of(const coterie_reading_options& o, const Model& model) {
    const auto known = [](int64_t value) { return value >= COTERIE_POOL_MEAN && value <= COTERIE_POOL_LAST; };
    if (o.pooling != 0 && !known(o.pooling))
        fail(Status::invalid_argument, "pooling {} is not known; use one of COTERIE_POOL_...", o.pooling);
    if (o.pooling != 0) return Pooling(o.pooling);
    const auto own = model.file().get_int(model.numbers().architecture + ".pooling_type");
    return own && known(int64_t(*own)) ? Pooling(*own) : Pooling::mean;
}

void need_room(size_t capacity, size_t floats, const char* what) {
    if (capacity < floats)
        fail(Status::invalid_argument, "the buffer has room for {} floats but {} need {}", capacity, what,
             floats);
}

}  // namespace

coterie_status coterie_embed(coterie_engine* engine, const coterie_input* inputs, size_t count,
                             const coterie_reading_options* options, float* embeddings, size_t capacity,
                             int64_t* tokens, coterie_error* error) {
    return guard(error, [&] {
        const std::shared_ptr<EngineData> data = need(engine, "engine").data;
        const coterie_reading_options o = read_options(options, "options");
        const int64_t whole = data->model->model->numbers().embedding;
        if (o.dimensions < 0 || o.dimensions > whole)
            fail(Status::invalid_argument, "{} dimensions were asked for, the model has {}", o.dimensions,
                 whole);
        const int64_t width = o.dimensions > 0 ? o.dimensions : whole;
        std::vector<Tokens> all = read_inputs(*data->model, inputs, count);
        fit(all, data->engine->options().context_tokens, o.truncate != 0);
        need_room(capacity, all.size() * size_t(width), "the embeddings");
        if (!all.empty()) need(embeddings, "embeddings");
        if (tokens) *tokens = int64_t(count_tokens(all));
        embed(*data->engine, all, pooling_of(o, *data->model->model), o.raw == 0, width, embeddings,
              reading_options(o));
    });
}

coterie_status coterie_read_logits(coterie_engine* engine, const int32_t* tokens, size_t count, size_t first,
                                   const coterie_reading_options* options, float* logits, size_t capacity,
                                   coterie_error* error) {
    return guard(error, [&] {
        const std::shared_ptr<EngineData> data = need(engine, "engine").data;
        const coterie_reading_options o = read_options(options, "options");
        const coterie_input input{nullptr, 0, &need(tokens, "tokens"), count};
        std::vector<Tokens> all = read_inputs(*data->model, &input, 1);
        fit(all, data->engine->options().context_tokens, false);
        if (first >= count)
            fail(Status::invalid_argument, "the first row wanted is {} of {} tokens", first, count);
        need_room(capacity, (count - first) * size_t(data->model->model->numbers().vocabulary), "the logits");
        need(logits, "logits");
        read_logits(*data->engine, all[0], int64_t(first), logits, reading_options(o));
    });
}

coterie_status coterie_score(coterie_engine* engine, const coterie_input* inputs, size_t count,
                             const coterie_reading_options* options, float* logprobs, size_t capacity,
                             size_t* ends, size_t* needed, coterie_error* error) {
    return guard(error, [&] {
        const std::shared_ptr<EngineData> data = need(engine, "engine").data;
        const coterie_reading_options o = read_options(options, "options");
        std::vector<Tokens> all = read_inputs(*data->model, inputs, count);
        fit(all, data->engine->options().context_tokens, o.truncate != 0);
        const size_t total = count_tokens(all);
        if (needed) *needed = total;
        if (ends)
            for (size_t i = 0, end = 0; i < all.size(); ++i) ends[i] = end += all[i].size();
        if (capacity == 0) return;
        need_room(capacity, total, "the logarithms");
        need(logprobs, "logprobs");
        score(*data->engine, all, logprobs, reading_options(o));
    });
}
