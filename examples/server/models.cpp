// Loading, sharing and unloading.
#include "models.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "errors.h"

namespace server {

struct PoolEntry {
    enum class State { loading, ready };
    std::string path;  // and the name: see key_of
    LoadedModel loaded;
    State state = State::loading;
    int uses = 0;
    int64_t context = 0;   // asked for
    bool leaving = false;  // to be unloaded as soon as it is idle
    double keep_alive = 300;
    Clock::time_point last_use = Clock::now();

    std::optional<Clock::time_point> deadline() const {
        if (keep_alive < 0) return std::nullopt;
        return last_use + std::chrono::duration_cast<Clock::duration>(
                              std::chrono::duration<double>(std::min(keep_alive, 1e9)));
    }
    bool idle() const { return state == State::ready && uses == 0; }
};

ModelPool::Lease::Lease(ModelPool* pool, EntryPointer entry, int64_t load_ns)
    : pool_(pool), entry_(std::move(entry)), load_ns_(load_ns) {}
ModelPool::Lease::~Lease() {
    if (entry_) pool_->release(entry_);
}
ModelPool::Lease::Lease(Lease&& other) noexcept
    : pool_(other.pool_), entry_(std::move(other.entry_)), load_ns_(other.load_ns_) {}
ModelPool::Lease& ModelPool::Lease::operator=(Lease&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(entry_, other.entry_);
    std::swap(load_ns_, other.load_ns_);
    return *this;
}
LoadedModel& ModelPool::Lease::operator*() const {
    return entry_->loaded;
}
LoadedModel* ModelPool::Lease::operator->() const {
    return &entry_->loaded;
}

ModelPool::ModelPool(const Settings& settings)
    : settings_(settings), health_(settings), reaper_([this] { reap(); }) {}

ModelPool::~ModelPool() {
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_all();
    reaper_.join();
}

namespace {

// Models made of the same file differ in template, system text and parameters, so each name has an entry.
std::string key_of(const Facts& facts) {
    return facts.path + "\n" + facts.name;
}

}  // namespace

ModelPool::EntryPointer ModelPool::find(const std::string& path) const {
    for (const EntryPointer& entry : entries_)
        if (entry->path == path && !entry->leaving) return entry;
    return nullptr;
}

void ModelPool::release(const EntryPointer& entry) {
    {
        std::lock_guard lock(mutex_);
        --entry->uses;
        entry->last_use = Clock::now();
    }
    changed_.notify_all();
}

void ModelPool::open(PoolEntry& entry, int64_t context) const {
    LoadedModel& m = entry.loaded;
    m.model = std::make_shared<coterie::Model>(m.facts.path);
    m.info = m.model->info();
    entry.context = context > 0 ? context : settings_.context;
    if (m.info.context_tokens > 0) entry.context = std::min(entry.context, m.info.context_tokens);
}

void ModelPool::load(PoolEntry& entry) const {
    LoadedModel& m = entry.loaded;
    coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
    if (!settings_.devices.empty()) o.devices = settings_.devices.c_str();
    o.threads = settings_.threads;
    o.parallel = settings_.parallel;
    o.queue = settings_.max_queue;
    o.context_tokens = entry.context;
    if (!settings_.key_value_type.empty()) o.key_type = o.value_type = settings_.key_value_type.c_str();
    m.engine = std::make_shared<coterie::Engine>(*m.model, o);
    m.context = m.engine->statistics().context_tokens;
    const json description = json::parse(m.engine->describe(COTERIE_JSON));
    for (const json& rank : description["ranks"]) {
        const uint64_t bytes = rank.value("total_bytes", uint64_t(0));
        m.bytes += bytes;
        if (rank.value("device", std::string()).compare(0, 4, "cuda") == 0) m.device_bytes += bytes;
    }
    read_defaults(m);
}

void ModelPool::read_defaults(LoadedModel& m) {
    m.defaults = json::object();
    const json file = json::parse(coterie::text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_model_sampling_defaults(m.model->get(), b, c, n, e);
    }));
    const std::map<std::string, std::string> names{{"temp", "temperature"},
                                                   {"typ_p", "typical_p"},
                                                   {"penalty_repeat", "repeat_penalty"},
                                                   {"penalty_last_n", "repeat_last_n"},
                                                   {"penalty_freq", "frequency_penalty"},
                                                   {"penalty_present", "presence_penalty"}};
    for (const auto& [key, value] : file.items()) m.defaults[names.count(key) ? names.at(key) : key] = value;
    m.defaults.update(m.facts.stored.value("parameters", json::object()));
}

// Another name of a file that is loaded, with as much context, takes what is there: names differ in template,
// system text and parameters only.
bool ModelPool::share(PoolEntry& fresh, int64_t context) const {
    for (const EntryPointer& entry : entries_) {
        const LoadedModel& there = entry->loaded;
        std::error_code error;
        if (entry->state != PoolEntry::State::ready || entry->leaving ||
            !std::filesystem::equivalent(there.facts.path, fresh.loaded.facts.path, error))
            continue;
        const int64_t most = there.info.context_tokens;
        if ((most > 0 ? std::min(context, most) : context) > there.context) continue;
        Facts facts = std::move(fresh.loaded.facts);
        fresh.loaded = there;
        fresh.loaded.facts = std::move(facts);
        fresh.context = entry->context;
        return true;
    }
    return false;
}

bool ModelPool::evict(std::unique_lock<std::mutex>& lock) {
    // Those that were to stay for ever go last.
    const auto rank = [](const PoolEntry& entry) {
        return std::make_pair(entry.keep_alive < 0, entry.last_use);
    };
    EntryPointer oldest;
    for (const EntryPointer& entry : entries_)
        if (entry->idle() && (!oldest || rank(*entry) < rank(*oldest))) oldest = entry;
    if (!oldest) return false;
    std::fprintf(stderr, "unloaded %s to make room\n", oldest->loaded.facts.name.c_str());
    entries_.remove(oldest);
    lock.unlock();
    oldest.reset();  // frees its memory without holding up the others
    lock.lock();
    return true;
}

void ModelPool::wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& gone) {
    if (waiting_ >= settings_.max_queue)
        throw HttpError(503, "server busy, please try again.  maximum pending requests exceeded");
    ++waiting_;
    changed_.wait_for(lock, std::chrono::milliseconds(200));
    --waiting_;
    if (gone()) throw ClientGone();
}

namespace {

// What the plan says of a model in the memory that is free now.
struct Room {
    bool fits = false;
    uint64_t bytes = 0, capacity = 0;
    std::string refusal;
    json plan;
};

Room room_for(const LoadedModel& m, int64_t context, const Settings& settings) {
    coterie_plan_request r = COTERIE_PLAN_REQUEST_INIT;
    r.parallel = settings.parallel;
    r.context_tokens = context;
    if (!settings.devices.empty()) r.devices = settings.devices.c_str();
    if (!settings.key_value_type.empty()) r.key_type = r.value_type = settings.key_value_type.c_str();
    int32_t fits = 0;
    Room room;
    room.plan = json::parse(coterie::text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_plan(m.model->get(), &r, COTERIE_JSON, &fits, b, c, n, e);
    }));
    room.fits = fits != 0;
    for (const json& rank : room.plan["ranks"]) {
        room.bytes += rank.value("total_bytes", uint64_t(0));
        room.capacity += rank.value("capacity_bytes", uint64_t(0));
    }
    room.refusal =
        fmt::format("{} does not fit on {}", m.facts.name, room.plan.value("machine", "this machine"));
    for (const char* list : {"problems", "suggestions"})
        for (const json& sentence : room.plan[list]) room.refusal += "; " + sentence.get<std::string>();
    return room;
}

}  // namespace

// Until there is room for one more: unloads those idle for longest, or waits for one to become idle. A model
// that would not fit even alone is refused before any other has to go for it.
void ModelPool::make_room(std::unique_lock<std::mutex>& lock, PoolEntry& fresh,
                          const std::function<bool()>& gone) {
    for (;;) {
        if (int(entries_.size()) >= std::max(1, settings_.max_models)) {
            if (!evict(lock)) wait(lock, gone);
            continue;
        }
        lock.unlock();
        Room room = room_for(fresh.loaded, fresh.context, settings_);
        lock.lock();
        uint64_t others = 0;
        std::set<const coterie::Engine*> counted;
        for (const EntryPointer& entry : entries_)
            if (counted.insert(entry->loaded.engine.get()).second) others += entry->loaded.bytes;
        const uint64_t most = settings_.max_memory;
        if (most > 0 && room.bytes + others > most) {
            room.fits = false;
            if (room.bytes > most)
                throw HttpError(500,
                                fmt::format("{} needs {} bytes, and --max-memory leaves {} for all models",
                                            fresh.loaded.facts.name, room.bytes, most));
        }
        if (room.fits) {
            fresh.loaded.plan = std::move(room.plan);
            return;
        }
        const bool could_fit = most > 0 || room.bytes <= room.capacity + others;
        if (entries_.empty() || !could_fit) throw HttpError(500, room.refusal);
        if (!evict(lock)) wait(lock, gone);
    }
}

ModelPool::Lease ModelPool::acquire(const std::string& name, std::optional<double> keep_alive,
                                    int64_t context, const std::function<bool()>& gone) {
    const auto start = Clock::now();
    Facts known = facts(name);
    if (const std::string problem = known.stored["problem"]; !problem.empty()) throw HttpError(500, problem);
    const auto elapsed = [&] {
        return std::max<int64_t>(
            1, std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
    };
    std::unique_lock lock(mutex_);
    for (;;) {
        EntryPointer entry = find(key_of(known));
        if (entry) {
            if (entry->state == PoolEntry::State::loading) {
                wait(lock, gone);
                continue;
            }
            const int64_t most = entry->loaded.info.context_tokens;
            const int64_t wanted = most > 0 ? std::min(context, most) : context;
            if (wanted > entry->loaded.context) {
                // A larger context needs the model loaded anew, once those who use it are done.
                entry->leaving = true;
                continue;
            }
            ++entry->uses;
            if (keep_alive) entry->keep_alive = *keep_alive;
            return Lease(this, entry, elapsed());
        }
        const auto leaving = std::find_if(entries_.begin(), entries_.end(),
                                          [&](const EntryPointer& e) { return e->path == key_of(known); });
        if (leaving != entries_.end()) {
            if ((*leaving)->uses == 0) {
                entry = *leaving;
                entries_.erase(leaving);
                lock.unlock();
                entry.reset();
                lock.lock();
            } else {
                wait(lock, gone);
            }
            continue;
        }
        if (placing_) {
            wait(lock, gone);
            continue;
        }
        placing_ = true;
        entry = std::make_shared<PoolEntry>();
        entry->path = key_of(known);
        entry->loaded.facts = known;
        entry->keep_alive = keep_alive.value_or(settings_.keep_alive);
        try {
            const bool shared = share(*entry, context);
            lock.unlock();
            if (!shared) open(*entry, context);
            lock.lock();
            if (!shared) make_room(lock, *entry, gone);
            entries_.push_back(entry);
            lock.unlock();
            if (shared)
                read_defaults(entry->loaded);
            else
                load(*entry);
            lock.lock();
        } catch (...) {
            if (!lock.owns_lock()) lock.lock();
            entries_.remove(entry);
            placing_ = false;
            changed_.notify_all();
            throw;
        }
        placing_ = false;
        std::fprintf(stderr, "loaded %s: %lld tokens of context for %d at once, %.1f MB\n", name.c_str(),
                     static_cast<long long>(entry->loaded.context), settings_.parallel,
                     double(entry->loaded.bytes) / 1e6);
        entry->state = PoolEntry::State::ready;
        ++entry->uses;
        changed_.notify_all();
        return Lease(this, entry, elapsed());
    }
}

void ModelPool::unload(const std::string& name) {
    const Facts known = facts(name);
    {
        std::lock_guard lock(mutex_);
        if (const EntryPointer entry = find(key_of(known))) entry->leaving = true;
    }
    changed_.notify_all();
}

void ModelPool::reap() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
        std::list<EntryPointer> gone;
        const auto now = Clock::now();
        for (auto at = entries_.begin(); at != entries_.end();) {
            const EntryPointer& entry = *at;
            const auto deadline = entry->deadline();
            if (entry->idle() && (entry->leaving || (deadline && *deadline <= now))) {
                gone.push_back(entry);
                at = entries_.erase(at);
            } else {
                ++at;
            }
        }
        if (!gone.empty()) {
            lock.unlock();
            gone.clear();
            changed_.notify_all();
            lock.lock();
            continue;
        }
        changed_.wait_for(lock, std::chrono::milliseconds(250));
    }
}

json ModelPool::running() const {
    std::lock_guard lock(mutex_);
    std::vector<std::pair<double, json>> rows;
    for (const EntryPointer& entry : entries_) {
        if (entry->state != PoolEntry::State::ready || entry->leaving) continue;
        const LoadedModel& m = entry->loaded;
        double left = 200.0 * 365 * 86400;  // for ever, near the end of 64 bits of nanoseconds
        if (entry->keep_alive >= 0) {
            left = std::min(entry->keep_alive, left);
            if (entry->uses == 0)
                left -= std::chrono::duration<double>(Clock::now() - entry->last_use).count();
        }
        rows.emplace_back(left,
                          json{{"name", m.facts.name},
                               {"model", m.facts.name},
                               {"size", m.bytes},
                               {"digest", m.facts.digest},
                               {"details", m.facts.details()},
                               {"expires_at", rfc3339(now_ns() / 1000 * 1000 + int64_t(left) * 1000000000)},
                               {"size_vram", m.device_bytes},
                               {"context_length", m.context}});
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    json list = json::array();
    for (auto& [left, row] : rows) list.push_back(std::move(row));
    return list;
}

void ModelPool::visit(const std::function<void(const LoadedModel&)>& function) const {
    std::lock_guard lock(mutex_);
    for (const EntryPointer& entry : entries_)
        if (entry->state == PoolEntry::State::ready) function(entry->loaded);
}

}  // namespace server
