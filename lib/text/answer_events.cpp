#include "text/answer_events.h"

#include <utility>

namespace coterie::text {
namespace {

bool space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

// Bytes at the end of the text that begin a code point without ending it.
size_t partial_size(std::string_view text) {
    for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
        const auto byte = static_cast<unsigned char>(text[text.size() - back]);
        if ((byte & 0xC0) == 0x80) continue;
        const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
        return length > back ? back : 0;
    }
    return 0;
}

// Nine letters and digits, which is what Mistral's templates insist on and everybody else accepts.
std::string call_id(uint64_t seed, int call) {
    uint64_t mix = seed + 0x9E3779B97F4A7C15u * (static_cast<uint64_t>(call) + 1);
    mix = (mix ^ (mix >> 30)) * 0xBF58476D1CE4E5B9u;
    mix = (mix ^ (mix >> 27)) * 0x94D049BB133111EBu;
    mix ^= mix >> 31;
    constexpr std::string_view letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    std::string id;
    for (int i = 0; i < 9; ++i, mix /= letters.size()) id += letters[mix % letters.size()];
    return id;
}

}  // namespace

void AnswerEvents::add(AnswerEvent::Kind kind, std::string_view bytes) {
    if (bytes.empty()) return;
    std::vector<AnswerEvent>& to = in_call_ && whole_calls_ ? held_call_ : ready_;
    if (to.empty() || to.back().kind != kind) {
        to.emplace_back();
        to.back().kind = kind;
        to.back().call = kind == AnswerEvent::Kind::call_arguments ? calls_ - 1 : 0;
    }
    to.back().text += bytes;
}

void AnswerEvents::flush_partial() {
    const std::string rest = std::exchange(partial_, {});
    add(kind_, rest);
}

void AnswerEvents::text(AnswerEvent::Kind kind, std::string_view bytes) {
    if (kind != kind_) {
        flush_partial();
        space_.clear();
        gap_.clear();
        kind_ = kind;
        said_ = false;
    }
    for (size_t at = 0; at < bytes.size();) {
        if (space(bytes[at])) {
            if (!skip_space_)
                space_ += bytes[at];
            else if (!gap_closed_)
                gap_ += bytes[at];
            ++at;
            continue;
        }
        if (std::exchange(skip_space_, false) && said_) space_ = std::exchange(gap_, {});
        gap_.clear();
        said_ = true;
        if (kind == AnswerEvent::Kind::content) any_content_ = true;
        size_t end = at;
        while (end < bytes.size() && !space(bytes[end])) ++end;
        partial_ += std::exchange(space_, {});
        partial_ += bytes.substr(at, end - at);
        const size_t partial = partial_size(partial_);
        add(kind, std::string_view(partial_).substr(0, partial_.size() - partial));
        partial_.erase(0, partial_.size() - partial);
        at = end;
    }
}

void AnswerEvents::markup() {
    flush_partial();
    if (!space_.empty()) gap_ = std::exchange(space_, {});
    gap_closed_ = !gap_.empty();
    skip_space_ = true;
}

void AnswerEvents::begin_call(std::string_view name, std::string_view id) {
    if (!whole_calls_) markup();
    in_call_ = true;
    AnswerEvent event;
    event.kind = AnswerEvent::Kind::call_begin;
    event.call = calls_++;
    event.name = name;
    event.id = id.empty() ? call_id(id_seed_, event.call) : std::string(id);
    (whole_calls_ ? held_call_ : ready_).push_back(std::move(event));
}

void AnswerEvents::arguments(std::string_view piece) {
    add(AnswerEvent::Kind::call_arguments, piece);
}

void AnswerEvents::end_call(bool complete, AnswerEvent::Kind kind, std::string_view raw) {
    in_call_ = false;
    if (whole_calls_ && !complete) {
        held_call_.clear();
        --calls_;
        text(kind, raw);
        return;
    }
    if (whole_calls_) markup();
    for (AnswerEvent& event : held_call_) ready_.push_back(std::move(event));
    held_call_.clear();
    AnswerEvent event;
    event.kind = AnswerEvent::Kind::call_end;
    event.call = calls_ - 1;
    event.complete = complete;
    ready_.push_back(std::move(event));
}

void AnswerEvents::take(std::vector<AnswerEvent>& events) {
    for (AnswerEvent& event : ready_) {
        const bool joins =
            !events.empty() && events.back().kind == event.kind && event.kind <= AnswerEvent::Kind::content;
        if (joins)
            events.back().text += event.text;
        else
            events.push_back(std::move(event));
    }
    ready_.clear();
}

void AnswerEvents::finish() {
    // White space alone after thinking or calls says nothing; an answer of white space alone is an answer.
    const bool says_nothing = kind_ == AnswerEvent::Kind::content && !any_content_ && skip_space_;
    if (!says_nothing) partial_ += space_;
    space_.clear();
    flush_partial();
}

}  // namespace coterie::text
