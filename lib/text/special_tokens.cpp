// See special_tokens.h.
#include "text/special_tokens.h"

#include <algorithm>

namespace coterie::text {

void SpecialTokens::add(std::string_view text, int32_t id, bool control) {
    if (text.empty() || text.size() > longest) return;
    first_.set(uint8_t(text[0]));
    uint32_t node = 0;
    for (const char c : text) {
        if (edges_.insert(node, uint8_t(c), {uint32_t(nodes_.size()), 0})) nodes_.emplace_back();
        node = edges_.find(node, uint8_t(c))->first;
    }
    int32_t& end = control ? nodes_[node].control : nodes_[node].always;
    if (end < 0) end = id;
}

SpecialTokens::Match SpecialTokens::find(std::string_view text, size_t from, bool control) const {
    for (size_t begin = from; begin < text.size(); ++begin) {
        if (!first_[uint8_t(text[begin])]) continue;
        Match match{begin, 0, -1};
        uint32_t node = 0;
        for (size_t i = begin; i < text.size(); ++i) {
            const PairTable::Value* const edge = edges_.find(node, uint8_t(text[i]));
            if (!edge) break;
            node = edge->first;
            int32_t id = nodes_[node].always;
            if (id < 0 && control) id = nodes_[node].control;
            if (id >= 0) match = {begin, i + 1 - begin, id};
        }
        if (match.id >= 0) return match;
    }
    return {text.size(), 0, -1};
}

}  // namespace coterie::text
