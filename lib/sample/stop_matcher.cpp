// See stop_matcher.h.
#include "sample/stop_matcher.h"

#include <algorithm>

namespace coterie {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
    std::erase_if(stops_, [](const std::string& s) { return s.empty(); });
    reached_.resize(stops_.size());
    for (const std::string& stop : stops_) {
        std::vector<size_t> border(stop.size() + 1);
        for (size_t i = 1, n = 0; i < stop.size(); ++i) {
            while (n > 0 && stop[i] != stop[n]) n = border[n];
            n += stop[i] == stop[n];
            border[i + 1] = n;
        }
        borders_.push_back(std::move(border));
    }
}

std::string StopMatcher::push(std::string_view text) {
    if (matched()) return {};
    for (size_t end = 0; end < text.size(); ++end) {
        for (size_t i = 0; i < stops_.size(); ++i) {
            const std::string& stop = stops_[i];
            size_t& n = reached_[i];
            while (n > 0 && text[end] != stop[n]) n = borders_[i][n];
            n += text[end] == stop[n];
            if (n == stop.size() && (matched_ < 0 || stop.size() > match().size())) matched_ = int(i);
        }
        if (!matched()) continue;
        std::string before = std::move(held_);
        before.append(text.substr(0, end + 1));
        before.resize(before.size() - match().size());
        held_.clear();
        return before;
    }
    held_.append(text);
    const size_t keep = reached_.empty() ? 0 : *std::max_element(reached_.begin(), reached_.end());
    std::string certain = held_.substr(0, held_.size() - keep);
    held_.erase(0, held_.size() - keep);
    return certain;
}

std::string StopMatcher::flush() {
    std::string rest = std::move(held_);
    held_.clear();
    std::fill(reached_.begin(), reached_.end(), 0);
    return matched() ? std::string() : rest;
}

}  // namespace coterie
