// Which recurrent states are kept to resume from, each at the end of a published page; slots only, the bytes
// are the runner's. When the budget is full the least useful one goes: worth falls with the number of
// checkpoints made since its last use, and rises with its hits and with the place it was taken at.
// Invariant: a slot is free or belongs to exactly one page id. Used by the scheduler's thread alone.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace coterie {

class CheckpointPool {
  public:
    enum class Place { interval, answer, message, prompt_end };

    // Slots [first, first + count) of the runner's states.
    CheckpointPool(int32_t first, int32_t count);

    // The slot of the state after that page; -1 if there is none. use() counts as a hit.
    int32_t find(uint64_t id) const;
    int32_t use(uint64_t id);
    // A slot for the state after that page, which must not have one; the least useful other one may lose its
    // own. Needs a budget above zero.
    int32_t take(uint64_t id, Place place);
    void drop(uint64_t id);  // nothing when there is none
    // As drop, unless somebody resumed from it.
    void drop_unused(uint64_t id);

    int32_t slots() const { return count_; }
    int32_t size() const { return int32_t(entries_.size()); }
    int64_t hits() const { return hits_; }
    // Throws internal if a slot is lost or held twice.
    void check() const;

  private:
    struct Entry {
        int32_t slot = -1;
        Place place = Place::interval;
        int64_t hits = 0, used_at = 0;
    };
    double worth(const Entry& entry) const;

    int32_t first_, count_;
    int64_t clock_ = 0, hits_ = 0;
    std::vector<int32_t> free_;
    std::unordered_map<uint64_t, Entry> entries_;
};

}  // namespace coterie
