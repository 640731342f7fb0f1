#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <utility>

namespace coterie {
namespace {

// How long to spin before sleeping or yielding, in pauses: about 50 us.
constexpr int spins_before_sleep = 20000;
constexpr int spins_before_yield = 2000;

// Cores allowed by affinity: the first hardware thread of every physical core, then the siblings.
std::vector<int> allowed_cores(int* physical) {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> first, siblings;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        std::set<std::pair<int, int>> seen;  // (package, core)
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
            if (!CPU_ISSET(cpu, &set)) continue;
            const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
            int package = 0, core = cpu;
            std::ifstream(topology + "physical_package_id") >> package;
            if (!(std::ifstream(topology + "core_id") >> core)) core = cpu;
            (seen.insert({package, core}).second ? first : siblings).push_back(cpu);
        }
    }
    if (first.empty()) first.push_back(0);
    if (physical) *physical = int(first.size());
    first.insert(first.end(), siblings.begin(), siblings.end());
    return first;
}

// Cores granted by cgroup v2 or v1 quotas, rounded up; a large number when unlimited.
int cgroup_cores() {
    std::string quota;
    double period = 0;
    if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2 >> quota >> period) {
        if (quota != "max" && period > 0)
            return std::max(1, int(std::ceil(std::atof(quota.c_str()) / period)));
        return 1 << 20;
    }
    double value = -1;
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> value;
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period;
    if (value > 0 && period > 0) return std::max(1, int(std::ceil(value / period)));
    return 1 << 20;
}

}  // namespace

int granted_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1 << 20;
    return std::max(1, std::min(allowed, cgroup_cores()));
}

int usable_cores() {
    int physical = 1;
    allowed_cores(&physical);
    return std::max(1, std::min(physical, cgroup_cores()));
}

ThreadTeam::ThreadTeam(int threads, bool pin) {
    const int n = threads > 0 ? threads : usable_cores();
    std::vector<int> cores = pin ? allowed_cores(nullptr) : std::vector<int>{};
    try {
        for (int member = 1; member < n; ++member) {
            workers_.emplace_back([this, member] { work(member); });
            if (pin) {
                cpu_set_t set;
                CPU_ZERO(&set);
                CPU_SET(cores[size_t(member) % cores.size()], &set);
                pthread_setaffinity_np(workers_.back().native_handle(), sizeof set, &set);
            }
        }
    } catch (...) {  // no memory, or no thread: those that run must not outlive this
        end();
        throw;
    }
}
ThreadTeam::~ThreadTeam() {
    end();
}

void ThreadTeam::end() {
    {
        std::lock_guard lock(mutex_);
        stop_.store(true);
        epoch_.fetch_add(1);
    }
    wake_.notify_all();
    for (auto& worker : workers_) worker.join();
}

void ThreadTeam::invoke(int member) {
    try {
        call_(function_, member);
    } catch (...) {
        std::lock_guard lock(failure_mutex_);
        if (!failure_) failure_ = std::current_exception();
    }
}

void ThreadTeam::start(Call call, void* function) {
    call_ = call;
    function_ = function;
    remaining_.store(int(workers_.size()), std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_seq_cst) > 0) {
        { std::lock_guard lock(mutex_); }
        wake_.notify_all();
    }
    invoke(0);
    for (int spins = 0; remaining_.load(std::memory_order_acquire) > 0; ++spins) {
        relax();
        if (spins > spins_before_yield) std::this_thread::yield();
    }
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadTeam::work(int member) {
    uint64_t seen = 0;
    for (;;) {
        int spins = 0;
        while (epoch_.load(std::memory_order_acquire) == seen && spins < spins_before_sleep) {
            relax();
            ++spins;
        }
        if (epoch_.load(std::memory_order_acquire) == seen) {
            std::unique_lock lock(mutex_);
            sleeping_.fetch_add(1, std::memory_order_seq_cst);
            wake_.wait(lock, [&] { return epoch_.load(std::memory_order_seq_cst) != seen; });
            sleeping_.fetch_sub(1, std::memory_order_relaxed);
        }
        if (stop_.load()) return;
        seen = epoch_.load(std::memory_order_acquire);
        invoke(member);
        remaining_.fetch_sub(1, std::memory_order_release);
    }
}

void ThreadTeam::barrier() {
    const uint64_t generation = generation_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size()) {
        arrived_.store(0, std::memory_order_relaxed);
        generation_.fetch_add(1, std::memory_order_release);
        return;
    }
    for (int spins = 0; generation_.load(std::memory_order_acquire) == generation; ++spins) {
        relax();
        if (spins > spins_before_yield) std::this_thread::yield();
    }
}

}  // namespace coterie
