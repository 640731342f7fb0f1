// Runs an answer through the parser, cut in any way, and joins its events, so that tests compare meanings.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "text/answer.h"

namespace answer_test {

using namespace coterie::text;

struct Call {
    std::string name, arguments;
    bool complete = true;
    bool operator==(const Call&) const = default;
};

struct Answer {
    std::string reasoning, content;
    std::vector<Call> calls;
    bool operator==(const Answer&) const = default;
};

// Also checks the order of events: begin, arguments, end per call; throws what it finds wrong.
inline Answer joined(const std::vector<AnswerEvent>& events) {
    Answer answer;
    bool open = false;
    for (const AnswerEvent& event : events) {
        switch (event.kind) {
            case AnswerEvent::Kind::reasoning:
                answer.reasoning += event.text;
                break;
            case AnswerEvent::Kind::content:
                answer.content += event.text;
                break;
            case AnswerEvent::Kind::call_begin:
                if (open || event.call != static_cast<int>(answer.calls.size()) || event.id.empty())
                    throw std::string("a call begins out of turn");
                answer.calls.push_back({event.name, "", true});
                open = true;
                break;
            case AnswerEvent::Kind::call_arguments:
                if (!open || event.call + 1 != static_cast<int>(answer.calls.size()))
                    throw std::string("arguments outside of a call");
                answer.calls.back().arguments += event.text;
                break;
            case AnswerEvent::Kind::call_end:
                if (!open) throw std::string("a call ends that has not begun");
                answer.calls.back().complete = event.complete;
                open = false;
                break;
        }
    }
    if (open) throw std::string("a call has no end");
    return answer;
}

inline Answer parse(const AnswerFormat& format, const AnswerOptions& options,
                    const std::vector<std::string>& pieces) {
    AnswerParser parser(format, options);
    std::vector<AnswerEvent> events;
    for (const std::string& piece : pieces) parser.push(piece, events);
    parser.finish(events);
    return joined(events);
}

inline std::vector<std::string> cut_at_random(const std::string& raw, std::mt19937& random, double chance) {
    std::vector<std::string> pieces(1);
    for (char byte : raw) {
        if (std::uniform_real_distribution<>(0, 1)(random) < chance) pieces.emplace_back();
        pieces.back() += byte;
    }
    return pieces;
}

inline std::vector<std::string> bytes_of(const std::string& raw) {
    std::vector<std::string> pieces;
    for (char byte : raw) pieces.emplace_back(1, byte);
    return pieces;
}

}  // namespace answer_test
