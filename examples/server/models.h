// The models that are loaded: found by name, loaded when asked for, shared by requests, unloaded when idle
// for their keep-alive or when another needs the room. All methods are for any thread.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "coterie/coterie.hpp"
#include "health.h"
#include "settings.h"

namespace server {

using json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// What is known of a stored model without loading it.
struct Facts {
    std::string name, path, digest, family, parameter_size, quantization, modified_at, chat_template;
    std::string architecture;
    std::vector<std::string> families;
    uint64_t size = 0;
    int64_t context = 0, embedding = 0;
    json stored;      // coterie_store_show's
    json model_info;  // metadata with the file's own keys
    bool embeds = false;
    bool thinks() const;
    bool takes_tools() const;
    bool inserts() const;  // text between two others
    json details() const;
    json capabilities() const;
};

struct LoadedModel {
    Facts facts;
    // Shared by the names of one file.
    std::shared_ptr<coterie::Model> model;
    std::shared_ptr<coterie::Engine> engine;
    coterie_model_info info = COTERIE_MODEL_INFO_INIT;
    int64_t context = 0;  // really allocated, of one sequence
    uint64_t bytes = 0, device_bytes = 0;
    json plan;      // coterie_plan's, made just before it was loaded
    json defaults;  // options of the file and of the store, request options go over them
};

class ModelPool {
  public:
    explicit ModelPool(const Settings& settings);
    ~ModelPool();

    // A use of a loaded model; while one exists the model stays.
    class Lease {
      public:
        Lease() = default;
        Lease(ModelPool* pool, std::shared_ptr<struct PoolEntry> entry, int64_t load_ns);
        ~Lease();
        Lease(Lease&& other) noexcept;
        Lease& operator=(Lease&& other) noexcept;
        LoadedModel& operator*() const;
        LoadedModel* operator->() const;
        int64_t load_ns() const { return load_ns_; }

      private:
        ModelPool* pool_ = nullptr;
        std::shared_ptr<struct PoolEntry> entry_;
        int64_t load_ns_ = 0;
    };

    // Loads it if it isn't. keep_alive (seconds) sticks to it; context 0: whatever it has. `gone` says that
    // nobody waits any more.
    Lease acquire(const std::string& name, std::optional<double> keep_alive, int64_t context,
                  const std::function<bool()>& gone);
    void unload(const std::string& name);  // as soon as it is idle

    Facts facts(const std::string& name) const;  // throws HttpError 404
    std::vector<Facts> list() const;
    json running() const;  // as of /api/ps
    void visit(const std::function<void(const LoadedModel&)>& function) const;
    Health& health() const { return health_; }

  private:
    using EntryPointer = std::shared_ptr<struct PoolEntry>;
    EntryPointer find(const std::string& path) const;
    void open(PoolEntry& entry, int64_t context) const;
    bool share(PoolEntry& entry, int64_t context) const;  // under the lock
    void load(PoolEntry& entry) const;
    static void read_defaults(LoadedModel& m);
    void release(const EntryPointer& entry);
    void make_room(std::unique_lock<std::mutex>& lock, PoolEntry& entry, const std::function<bool()>& gone);
    void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& gone);
    bool evict(std::unique_lock<std::mutex>& lock);  // the one idle for longest; false if none is idle
    void reap();

    const Settings& settings_;
    mutable Health health_;
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    std::list<EntryPointer> entries_;
    int waiting_ = 0;
    bool placing_ =
        false;  // one model at a time is given room and loaded: plans look at the memory that is free
    bool ending_ = false;
    std::thread reaper_;
};

Facts facts_of_file(const std::string& path);
std::string rfc3339(int64_t nanoseconds_since_1970);
int64_t now_ns();

}  // namespace server
