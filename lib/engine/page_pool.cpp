#include "engine/page_pool.h"

#include <algorithm>
#include <new>

#include "base/failure.h"

namespace coterie {

PagePool::PagePool(int32_t pages, int32_t page_tokens, std::function<void(uint64_t)> forget)
    : page_tokens_(page_tokens), forget_(std::move(forget)), slots_(size_t(pages)) {
    for (int32_t page = pages - 1; page >= 0; --page) free_.push_back(page);
}

// FNV-1a over the words; a match is confirmed by comparing the tokens.
uint64_t PagePool::hash(uint64_t parent, std::span<const int32_t> tokens) {
    uint64_t h = 14695981039346656037ull ^ parent;
    for (const int32_t token : tokens) h = (h ^ uint64_t(uint32_t(token))) * 1099511628211ull;
    return h;
}

int32_t PagePool::look_up(uint64_t key, uint64_t parent, std::span<const int32_t> tokens) const {
    const auto [begin, end] = index_.equal_range(key);
    for (auto it = begin; it != end; ++it) {
        const Slot& slot = slots_[size_t(it->second)];
        if (slot.parent == parent &&
            std::equal(tokens.begin(), tokens.end(), slot.tokens.begin(), slot.tokens.end()))
            return it->second;
    }
    return -1;
}

void PagePool::unpublish(int32_t page) {
    Slot& slot = slots_[size_t(page)];
    const auto [begin, end] = index_.equal_range(slot.key);
    for (auto it = begin; it != end; ++it)
        if (it->second == page) {
            index_.erase(it);
            break;
        }
    if (forget_) forget_(slot.id);
    slot.id = slot.parent = 0;
    slot.tokens.clear();
}

int32_t PagePool::take() {
    int32_t page;
    if (!free_.empty()) {
        page = free_.back();
        free_.pop_back();
    } else if (!lru_.empty()) {
        page = lru_.front();
        lru_.pop_front();
        unpublish(page);
    } else {
        return -1;
    }
    slots_[size_t(page)].holders = 1;
    ++held_;
    return page;
}

void PagePool::hold(int32_t page) {
    Slot& slot = slots_[size_t(page)];
    if (slot.holders++ == 0) {
        COTERIE_CHECK(slot.id != 0);
        lru_.erase(slot.place);
        ++held_;
    }
}

void PagePool::release(int32_t page) {
    Slot& slot = slots_[size_t(page)];
    COTERIE_CHECK(slot.holders > 0);
    if (--slot.holders > 0) return;
    --held_;
    if (slot.id != 0) try {
            slot.place = lru_.insert(lru_.end(), page);
            return;
        } catch (const std::bad_alloc&) {  // it is not kept then: giving back must not fail
            unpublish(page);
        }
    free_.push_back(page);  // which had room for all pages from the beginning
}

uint64_t PagePool::publish(int32_t& page, uint64_t parent, std::span<const int32_t> tokens) {
    COTERIE_CHECK(int32_t(tokens.size()) == page_tokens_);
    COTERIE_CHECK(page >= 0 && page < pages());
    Slot& slot = slots_[size_t(page)];
    COTERIE_CHECK(slot.holders > 0 && slot.id == 0);
    const uint64_t key = hash(parent, tokens);
    const int32_t same = look_up(key, parent, tokens);
    if (same >= 0) {
        hold(same);
        release(page);
        page = same;
        return slots_[size_t(same)].id;
    }
    slot.id = next_id_++;
    slot.parent = parent;
    slot.key = key;
    slot.tokens.assign(tokens.begin(), tokens.end());
    index_.emplace(key, page);
    return slot.id;
}

int32_t PagePool::find(uint64_t parent, std::span<const int32_t> tokens, uint64_t* id) {
    const int32_t page = look_up(hash(parent, tokens), parent, tokens);
    if (page < 0) return -1;
    hold(page);
    *id = slots_[size_t(page)].id;
    return page;
}

void PagePool::check() const {
    int32_t held = 0;
    size_t published = 0;
    for (const Slot& slot : slots_) {
        held += slot.holders > 0;
        published += slot.id != 0;
    }
    COTERIE_CHECK(held == held_);
    COTERIE_CHECK(size_t(held_) + free_.size() + lru_.size() == slots_.size());
    COTERIE_CHECK(published == index_.size());
    for (const int32_t page : free_)
        COTERIE_CHECK(slots_[size_t(page)].holders == 0 && slots_[size_t(page)].id == 0);
    for (const int32_t page : lru_)
        COTERIE_CHECK(slots_[size_t(page)].holders == 0 && slots_[size_t(page)].id != 0);
}

}  // namespace coterie
