// Counters for Prometheus, in its text format.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace server {

class ModelPool;

class Metrics {
  public:
    std::atomic<int64_t> prompt_tokens{0}, cached_tokens{0}, generated_tokens{0};
    std::atomic<int64_t> prompt_us{0}, generation_us{0};
    std::atomic<int64_t> processing{0}, cancelled{0};
    void count(const std::string& path, int status);
    std::string text(const ModelPool& pool) const;

  private:
    mutable std::mutex mutex_;
    std::map<std::pair<std::string, int>, int64_t> requests_;
};

}  // namespace server
