#include "engine/generation.h"

namespace coterie {

Generation::Next Generation::next(Piece& piece, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return !pieces_.empty() || reason_ != FinishReason::none; };
    if (timeout.count() < 0)
        changed_.wait(lock, ready);
    else if (!changed_.wait_for(lock, timeout, ready))
        return Next::timeout;
    if (pieces_.empty()) return Next::finished;
    piece = std::move(pieces_.front());
    pieces_.pop_front();
    return Next::piece;
}

FinishReason Generation::reason() const {
    std::lock_guard lock(mutex_);
    return reason_;
}
std::string Generation::stop_string() const {
    std::lock_guard lock(mutex_);
    return stop_string_;
}
std::optional<Failure> Generation::failure() const {
    std::lock_guard lock(mutex_);
    return failure_;
}
GenerationStatistics Generation::statistics() const {
    std::lock_guard lock(mutex_);
    return statistics_;
}

std::vector<int32_t> Generation::tokens() const {
    std::lock_guard lock(mutex_);
    return tokens_;
}
int64_t Generation::answer_begin() const {
    std::lock_guard lock(mutex_);
    return answer_begin_;
}
std::string Generation::earlier_text() const {
    std::lock_guard lock(mutex_);
    return earlier_text_;
}

void Generation::set_tokens(std::vector<int32_t> tokens, int64_t answer_begin) {
    std::lock_guard lock(mutex_);
    tokens_ = std::move(tokens);
    answer_begin_ = answer_begin;
}
void Generation::set_earlier_text(std::string text) {
    std::lock_guard lock(mutex_);
    earlier_text_ = std::move(text);
}

void Generation::push(Piece piece) {
    {
        std::lock_guard lock(mutex_);
        tokens_.push_back(piece.token);
        pieces_.push_back(std::move(piece));
    }
    changed_.notify_all();
}

void Generation::push_progress(int64_t computed) {
    {
        std::lock_guard lock(mutex_);
        if (pieces_.empty() || pieces_.back().token >= 0) pieces_.emplace_back();
        pieces_.back().computed = computed;
    }
    changed_.notify_all();
}

void Generation::finish(FinishReason reason, std::string stop_string, std::optional<Failure> failure) {
    {
        std::lock_guard lock(mutex_);
        if (reason_ != FinishReason::none) return;
        reason_ = reason;
        stop_string_ = std::move(stop_string);
        failure_ = std::move(failure);
    }
    changed_.notify_all();
}

void Generation::fail(const Failure& failure) noexcept {
    try {
        finish(FinishReason::failed, {}, failure);
    } catch (const std::bad_alloc&) {
        finish(FinishReason::failed, {}, Failure(failure.status(), "out of memory"));
    }
}

void Generation::set_statistics(const GenerationStatistics& statistics) {
    std::lock_guard lock(mutex_);
    statistics_ = statistics;
}

}  // namespace coterie
