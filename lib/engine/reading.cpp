#include "engine/reading.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/failure.h"
#include "sample/logits.h"

namespace coterie {
namespace {

constexpr std::chrono::milliseconds glance(50);  // how often a caller is asked whether to go on

// The readings that run for one call. Cancels and awaits them when it goes.
class Batch {
  public:
    Batch(Engine& engine, const char* what, uint64_t total, const ReadingOptions& options)
        : engine_(engine), what_(what), total_(total), options_(options) {}
    ~Batch() {
        for (const auto& generation : running_) generation->cancel();
        Piece piece;
        for (const auto& generation : running_) generation->next(piece, std::chrono::milliseconds(-1));
    }
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    void add(Tokens tokens, RowReading reading) {
        while (int64_t(running_.size()) >= 2 * int64_t(engine_.options().parallel)) take_first();
        for (;;) {
            GenerationRequest request;
            request.prompt = tokens;
            request.reading = reading;
            request.priority = options_.priority;
            request.time_limit = options_.time_limit;
            try {
                running_.push_back(engine_.submit(std::move(request)));
                return;
            } catch (const Failure& failure) {
                if (failure.status() != Status::busy || running_.empty()) throw;
            }
            take_first();
        }
    }
    void finish() {
        while (!running_.empty()) take_first();
    }

  private:
    void take_first() {
        Generation& first = *running_.front();
        Piece piece;
        for (;;) {
            const Generation::Next next = first.next(piece, glance);
            report();
            if (next == Generation::Next::finished) break;
        }
        if (first.reason() == FinishReason::failed) throw first.failure().value();
        if (first.reason() == FinishReason::time_limit)
            fail(Status::cancelled, "the time limit of {} ms passed while {}", options_.time_limit.count(),
                 what_);
        done_ += uint64_t(first.statistics().prompt_tokens);
        running_.pop_front();
    }
    void report() const {
        uint64_t done = done_;
        for (const auto& generation : running_) done += uint64_t(generation->statistics().computed_tokens);
        report_progress(options_.progress, what_, std::min(done, total_), total_);
    }

    Engine& engine_;
    const char* what_;
    uint64_t total_, done_ = 0;
    const ReadingOptions& options_;
    std::deque<std::shared_ptr<Generation>> running_;
};

uint64_t count(std::span<const Tokens> inputs) {
    uint64_t total = 0;
    for (const Tokens& input : inputs) total += input.size();
    return total;
}

// Sums of rows, made on the engine's thread; whole once the reading has finished.
using Sums = std::vector<double>;

void write_embedding(const Sums& sums, bool normalise, std::span<float> to) {
    double square = 0;
    for (size_t i = 0; i < to.size(); ++i) square += sums[i] * sums[i];
    const double scale = normalise && square > 0 ? 1.0 / std::sqrt(square) : 1.0;
    for (size_t i = 0; i < to.size(); ++i) to[i] = float(sums[i] * scale);
}

float log_probability(std::span<const float> logits, int32_t token) {
    const float best = greatest(logits);
    return float(double(logits[size_t(token)]) - double(best) -
                 std::log(exponentials(logits, best, 1.0f, {})));
}

}  // namespace

void embed(Engine& engine, std::span<const Tokens> inputs, Pooling pooling, bool normalise, int64_t width,
           float* embeddings, const ReadingOptions& options) {
    COTERIE_CHECK(width > 0 && width <= engine.model().numbers().embedding);
    std::vector<Sums> sums(inputs.size(), Sums(size_t(width), 0.0));
    {
        Batch batch(engine, "embedding", count(inputs), options);
        for (size_t i = 0; i < inputs.size(); ++i) {
            Tokens tokens = inputs[i];
            // The first row depends on nothing that follows it.
            if (pooling == Pooling::cls && tokens.size() > 1) tokens.resize(1);
            const double share =
                pooling == Pooling::mean ? 1.0 / double(std::max<size_t>(tokens.size(), 1)) : 1.0;
            RowReading reading;
            reading.hidden = true;
            reading.first = pooling == Pooling::last ? std::max<int64_t>(int64_t(tokens.size()) - 1, 0) : 0;
            reading.take = [&sum = sums[i], share](int64_t, std::span<const float> row) {
                for (size_t c = 0; c < sum.size(); ++c) sum[c] += share * double(row[c]);
            };
            batch.add(std::move(tokens), std::move(reading));
        }
        batch.finish();
    }
    for (size_t i = 0; i < inputs.size(); ++i)
        write_embedding(sums[i], normalise, {embeddings + i * size_t(width), size_t(width)});
}

void read_logits(Engine& engine, const Tokens& tokens, int64_t first, float* logits,
                 const ReadingOptions& options) {
    Batch batch(engine, "computing logits", tokens.size(), options);
    RowReading reading;
    reading.first = first;
    reading.take = [=](int64_t row, std::span<const float> values) {
        std::copy(values.begin(), values.end(), logits + size_t(row - first) * values.size());
    };
    batch.add(tokens, std::move(reading));
    batch.finish();
}

void score(Engine& engine, std::span<const Tokens> inputs, float* logprobs, const ReadingOptions& options) {
    const int32_t vocabulary = engine.model().numbers().vocabulary;
    Batch batch(engine, "scoring", count(inputs), options);
    for (const Tokens& tokens : inputs) {
        for (const int32_t token : tokens)
            if (token < 0 || token >= vocabulary)
                fail(Status::invalid_argument, "token {} is not in the vocabulary of {} tokens", token,
                     vocabulary);
        if (!tokens.empty()) logprobs[0] = 0.0f;
        if (tokens.size() > 1) {
            RowReading reading;
            reading.take = [&tokens, logprobs](int64_t row, std::span<const float> logits) {
                logprobs[row + 1] = log_probability(logits, tokens[size_t(row) + 1]);
            };
            batch.add(Tokens(tokens.begin(), tokens.end() - 1), std::move(reading));
        }
        logprobs += tokens.size();
    }
    batch.finish();
}

}  // namespace coterie
