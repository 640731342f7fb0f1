#include "sample/stop_matcher.h"

#include <algorithm>

namespace coterie {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
    std::erase_if(stops_, [](const std::string& s) { return s.empty(); });
}

std::string StopMatcher::push(std::string_view text) {
    if (matched()) return {};
    held_ += text;
    size_t first = std::string::npos;
    for (size_t i = 0; i < stops_.size(); ++i) {
        const size_t at = held_.find(stops_[i]);
        if (at < first) {
            first = at;
            matched_ = int(i);
        }
    }
    if (matched()) {
        std::string before = held_.substr(0, first);
        held_.clear();
        return before;
    }
    // The longest end of the text that begins a stop string stays.
    size_t keep = 0;
    for (const std::string& stop : stops_)
        for (size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n)
            if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) keep = n;
    std::string certain = held_.substr(0, held_.size() - keep);
    held_.erase(0, held_.size() - keep);
    return certain;
}

std::string StopMatcher::flush() {
    std::string rest = std::move(held_);
    held_.clear();
    return matched() ? std::string() : rest;
}

}  // namespace coterie
