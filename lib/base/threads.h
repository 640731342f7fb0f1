// A team of threads that runs one function at a time on all its members. The caller is member 0. Members spin
// briefly for the next call and then sleep, so that a step's many short calls cost no system call.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace coterie {

// Cores this process may use: affinity and cgroup limits respected, physical cores counted once where known.
int usable_cores();
// Hardware threads this thread may run on, less what a cgroup's quota withholds: quick, to be asked often.
int granted_cores();

// One turn of a waiting loop that spins.
inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
}

class ThreadTeam {
  public:
    // threads <= 0 means usable_cores(). With pin, member i is bound to the i-th usable core (physical cores
    // first).
    explicit ThreadTeam(int threads = 0, bool pin = false);
    ~ThreadTeam();
    ThreadTeam(const ThreadTeam&) = delete;
    ThreadTeam& operator=(const ThreadTeam&) = delete;

    int size() const { return int(workers_.size()) + 1; }

    // Calls function(member) on every member and returns when all are done. The first exception is rethrown
    // here. No allocation. One run at a time: a call from inside a member is an error.
    template <typename Function>
    void run(Function&& function) {
        if (workers_.empty()) return function(0);
        using F = std::remove_reference_t<Function>;
        start([](void* f, int member) { (*static_cast<F*>(f))(member); }, &function);
    }

    // Inside run(): waits until every member has arrived.
    void barrier();

  private:
    using Call = void (*)(void* function, int member);
    void start(Call call, void* function);
    void work(int member);
    void invoke(int member);
    void end();  // of all workers there are

    std::vector<std::thread> workers_;
    Call call_ = nullptr;
    void* function_ = nullptr;
    alignas(64) std::atomic<uint64_t> epoch_{0};       // a new value starts a run
    alignas(64) std::atomic<int> remaining_{0};        // members still running
    alignas(64) std::atomic<int> arrived_{0};          // barrier: members that arrived
    alignas(64) std::atomic<uint64_t> generation_{0};  // barrier: how many times it opened
    std::atomic<int> sleeping_{0};
    std::atomic<bool> stop_{false};
    std::mutex mutex_;
    std::condition_variable wake_;
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
};

// The i-th of n nearly equal parts of [0, total), in multiples of grain (the last part takes the rest).
struct Range {
    int64_t begin, end;
};
inline Range part_of(int64_t total, int i, int n, int64_t grain = 1) {
    const int64_t units = (total + grain - 1) / grain;
    const int64_t first = units * i / n, last = units * (i + 1) / n;
    return {first * grain < total ? first * grain : total, last * grain < total ? last * grain : total};
}

}  // namespace coterie
