// Packs the experts that nobody has asked for yet, in a thread of the lowest priority: what a step would have
// to wait for on first use is done while the processor is idle. It goes on as long as the machine has memory
// to spare; an expert that steps need again before is packed by the step.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

namespace coterie::cpu {

class CpuWeight;

class Packer {
  public:
    Packer() = default;
    ~Packer();  // every weight has left by then
    Packer(const Packer&) = delete;
    Packer& operator=(const Packer&) = delete;

    void enter(CpuWeight& weight);
    void leave(CpuWeight& weight);  // returns when the thread no longer touches it
    // Bytes of experts that are still to be packed; 0 as well once memory ran short.
    uint64_t pending() const;

  private:
    void work();

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<CpuWeight*> weights_;
    CpuWeight* current_ = nullptr;
    std::atomic<bool> drop_current_{false};
    bool stop_ = false, short_of_memory_ = false;
    std::thread thread_;
};

}  // namespace coterie::cpu
