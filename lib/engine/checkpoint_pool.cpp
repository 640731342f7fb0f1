#include "engine/checkpoint_pool.h"

#include <algorithm>

#include "base/failure.h"

namespace coterie {

CheckpointPool::CheckpointPool(int32_t first, int32_t count) : first_(first), count_(count) {
    for (int32_t i = count - 1; i >= 0; --i) free_.push_back(first + i);
}

int32_t CheckpointPool::find(uint64_t id) const {
    const auto it = entries_.find(id);
    return it == entries_.end() ? -1 : it->second.slot;
}

int32_t CheckpointPool::use(uint64_t id) {
    const auto it = entries_.find(id);
    if (it == entries_.end()) return -1;
    ++it->second.hits;
    ++hits_;
    it->second.used_at = clock_;
    return it->second.slot;
}

double CheckpointPool::worth(const Entry& entry) const {
    double weight = 1;
    if (entry.place == Place::answer || entry.place == Place::message) weight = 2;
    if (entry.place == Place::prompt_end) weight = 4;
    return weight * double(1 + entry.hits) / double(1 + clock_ - entry.used_at);
}

int32_t CheckpointPool::take(uint64_t id, Place place) {
    COTERIE_CHECK(count_ > 0 && !entries_.contains(id));
    if (free_.empty()) {
        const auto least =
            std::min_element(entries_.begin(), entries_.end(), [&](const auto& a, const auto& b) {
                const double wa = worth(a.second), wb = worth(b.second);
                return wa != wb ? wa < wb : a.first < b.first;
            });
        free_.push_back(least->second.slot);
        entries_.erase(least);
    }
    const int32_t slot = free_.back();
    free_.pop_back();
    entries_.emplace(id, Entry{slot, place, 0, ++clock_});
    return slot;
}

void CheckpointPool::drop(uint64_t id) {
    const auto it = entries_.find(id);
    if (it == entries_.end()) return;
    free_.push_back(it->second.slot);
    entries_.erase(it);
}

void CheckpointPool::drop_unused(uint64_t id) {
    const auto it = entries_.find(id);
    if (it != entries_.end() && it->second.hits == 0) drop(id);
}

void CheckpointPool::check() const {
    std::vector<bool> seen(size_t(count_), false);
    const auto once = [&](int32_t slot) {
        COTERIE_CHECK(slot >= first_ && slot < first_ + count_ && !seen[size_t(slot - first_)]);
        seen[size_t(slot - first_)] = true;
    };
    for (const int32_t slot : free_) once(slot);
    for (const auto& [id, entry] : entries_) once(entry.slot);
    COTERIE_CHECK(free_.size() + entries_.size() == size_t(count_));
}

}  // namespace coterie
