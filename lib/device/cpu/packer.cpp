#include "device/cpu/packer.h"

#include <algorithm>
#include <new>

#include "base/host_memory.h"
#include "device/cpu/weight.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace coterie::cpu {
namespace {

void lowest_priority() {
#if defined(__linux__)
    sched_param none{};
    pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
#endif
}

// Whether a tenth of the machine's memory would stay free (page cache that can be dropped counts as free).
bool memory_to_spare() {
    return meminfo("MemAvailable:") >= meminfo("MemTotal:") / 10;
}

}  // namespace

Packer::~Packer() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        drop_current_.store(true, std::memory_order_relaxed);
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void Packer::enter(CpuWeight& weight) {
    {
        const std::lock_guard lock(mutex_);
        weights_.push_back(&weight);
        if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    }
    changed_.notify_all();
}

void Packer::leave(CpuWeight& weight) {
    std::unique_lock lock(mutex_);
    std::erase(weights_, &weight);
    if (current_ != &weight) return;
    drop_current_.store(true, std::memory_order_relaxed);
    changed_.wait(lock, [&] { return current_ != &weight; });
}

uint64_t Packer::pending() const {
    const std::lock_guard lock(mutex_);
    uint64_t bytes = current_ ? current_->unpacked_bytes() : 0;
    for (const CpuWeight* weight : weights_) bytes += weight->unpacked_bytes();
    return short_of_memory_ ? 0 : bytes;
}

void Packer::work() {
    lowest_priority();
    std::unique_lock lock(mutex_);
    while (!stop_) {
        if (weights_.empty()) {
            changed_.wait(lock);
            continue;
        }
        CpuWeight& weight = *weights_.front();
        weights_.pop_front();
        current_ = &weight;
        drop_current_.store(false, std::memory_order_relaxed);
        for (int64_t e = 0; e < weight.experts && !drop_current_.load(std::memory_order_relaxed); ++e) {
            lock.unlock();
            bool spare = false;
            try {
                spare = weight.packed(e) || memory_to_spare();
                if (spare && weight.claim(e)) {
                    weight.pack(e, {0, weight.shape.groups()}, &drop_current_);
                    weight.finish(e);
                }
            } catch (
                const std::bad_alloc&) {  // as good as none to spare: the rest stays as it is in the file
                spare = false;
            }
            lock.lock();
            if (!spare) {
                short_of_memory_ = true;
                current_ = nullptr;
                changed_.notify_all();
                return;
            }
        }
        current_ = nullptr;
        changed_.notify_all();
    }
}

}  // namespace coterie::cpu
