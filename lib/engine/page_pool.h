// The pages of the KV cache: who holds them, which are free, and which hold a prefix that a later prompt may
// begin with. Counts only; the bytes are the runner's. A page that nobody holds but that was published stays
// findable until it is needed for something else; the least recently used goes first. Used by the scheduler's
// thread alone.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

namespace coterie {

class PagePool {
  public:
    // `forget` is called with the id of a published page that is lost (its checkpoint goes with it).
    PagePool(int32_t pages, int32_t page_tokens, std::function<void(uint64_t id)> forget = {});

    // A page held once; -1 when every page is held. May forget a published page.
    int32_t take();
    void hold(int32_t page);     // once more
    void release(int32_t page);  // once less

    // Makes a full page findable as the successor of the page with id `parent` (0: a sequence's first page).
    // Returns its id. When the same prefix was published before, the caller's page is given back and `page`
    // becomes the one that was there, held for the caller.
    uint64_t publish(int32_t& page, uint64_t parent, std::span<const int32_t> tokens);
    // The page that follows `parent` and holds these tokens, held once more for the caller; -1 if there is
    // none.
    int32_t find(uint64_t parent, std::span<const int32_t> tokens, uint64_t* id);

    int32_t pages() const { return int32_t(slots_.size()); }
    int32_t page_tokens() const { return page_tokens_; }
    int32_t holders(int32_t page) const { return slots_[size_t(page)].holders; }
    uint64_t id(int32_t page) const { return slots_[size_t(page)].id; }  // 0: not published
    int32_t held() const { return held_; }                               // by somebody
    int32_t cached() const { return int32_t(lru_.size()); }              // by nobody, but findable
    int32_t available() const { return pages() - held_; }
    // Throws internal if the counts contradict each other.
    void check() const;

  private:
    struct Slot {
        int32_t holders = 0;
        uint64_t id = 0;  // 0: not published
        uint64_t parent = 0;
        uint64_t key = 0;
        std::vector<int32_t> tokens;
        std::list<int32_t>::iterator place;  // in lru_, when nobody holds it and it is published
    };
    static uint64_t hash(uint64_t parent, std::span<const int32_t> tokens);
    int32_t look_up(uint64_t key, uint64_t parent, std::span<const int32_t> tokens) const;
    void unpublish(int32_t page);

    int32_t page_tokens_, held_ = 0;
    uint64_t next_id_ = 1;
    std::function<void(uint64_t)> forget_;
    std::vector<Slot> slots_;
    std::vector<int32_t> free_;
    std::list<int32_t> lru_;  // least recently used first
    std::unordered_multimap<uint64_t, int32_t> index_;
};

}  // namespace coterie
