#include "engine/crew.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "base/threads.h"
#include "device/cpu/cpu_device.h"
#include "engine/placement.h"
#include "execute/orders.h"

namespace coterie {
namespace {

constexpr std::chrono::seconds rank_deadline(120);

std::string words(const EngineOptions& o, const std::string& path) {
    const Json j = {{"path", std::filesystem::absolute(path).string()},
                    {"devices", o.devices},
                    {"isa", o.isa},
                    {"threads", o.threads},
                    {"context", o.context_tokens},
                    {"parallel", o.parallel},
                    {"rows", o.step_rows},
                    {"keys", int(o.key_type)},
                    {"values", int(o.value_type)},
                    {"drafts", o.drafts},
                    {"checkpoints", o.checkpoints},
                    {"reuse", o.reuse_prefixes},
                    {"mode", int(o.mode)},
                    {"host_experts", o.host_experts},
                    {"device_bytes", o.device_bytes}};
    return j.dump();
}

EngineOptions options_of(const Json& j) {
    EngineOptions o;
    o.devices = j["devices"].get<std::string>();
    o.isa = j["isa"].get<std::string>();
    o.threads = j["threads"].get<int>();
    o.context_tokens = j["context"].get<int64_t>();
    o.parallel = j["parallel"].get<int>();
    o.step_rows = j["rows"].get<int64_t>();
    o.key_type = Type(j["keys"].get<int>());
    o.value_type = Type(j["values"].get<int>());
    o.drafts = j["drafts"].get<int>();
    o.checkpoints = j["checkpoints"].get<int>();
    o.reuse_prefixes = j["reuse"].get<bool>();
    o.mode = Mode(j["mode"].get<int>());
    o.host_experts = j["host_experts"].get<bool>();
    o.device_bytes = j["device_bytes"].get<uint64_t>();
    return o;
}

void check(const EngineOptions& o, const Processes& crew) {
    if (!o.devices.empty() && o.devices != "cpu")
        fail(
            Status::unsupported,
            "devices '{}' can't be used by {} processes: each of them is one CPU rank; leave the devices out",
            o.devices, crew.size());
    if (o.host_experts)
        fail(Status::unsupported, "experts on the host need an engine in one process; {} were started",
             crew.size());
}

// A launcher may have bound each process to cores of its own; else the processes of a machine share all.
int threads_of(const EngineOptions& o, const Processes& crew) {
    if (o.threads > 0) return o.threads;
    cpu_set_t set;
    CPU_ZERO(&set);
    const bool bound =
        sched_getaffinity(0, sizeof set, &set) == 0 && long(CPU_COUNT(&set)) < sysconf(_SC_NPROCESSORS_ONLN);
    return std::max(1, bound ? usable_cores() : usable_cores() / crew.on_this_machine());
}

std::optional<Failure> failure_of(const std::function<void()>& function) {
    try {
        function();
    } catch (const Failure& failure) {
        return failure;
    } catch (const std::exception& error) {
        return Failure(Status::internal, error.what());
    }
    return std::nullopt;
}

// The same calls on every process; a failure of one is everyone's.
CrewPlace place_one(const std::shared_ptr<Processes>& crew, const EngineOptions& o,
                    const std::function<std::shared_ptr<const Model>()>& open,
                    const ProgressCallback& progress) {
    RankPlace mine;
    mine.communicator = crew->make_communicator(rank_deadline);
    std::shared_ptr<const Model> model;
    crew->agree(failure_of([&] {
        check(o, *crew);
        model = open();
    }));
    const MachineDevice device = live_machine(crew->on_this_machine()).devices[0];
    const double numbers[] = {double(device.total_bytes), double(device.free_bytes), device.bandwidth,
                              device.matrix_rate};
    std::vector<MachineDevice> devices;
    for (const std::vector<std::byte>& theirs : crew->share(std::as_bytes(std::span(numbers)))) {
        double n[4];
        COTERIE_CHECK(theirs.size() == sizeof n);
        std::memcpy(n, theirs.data(), sizeof n);
        devices.push_back(
            {"", DeviceKind::cpu, uint64_t(n[0]), uint64_t(n[1]), n[2], n[3], device.launch_us});
    }
    CrewPlace result;
    crew->agree(failure_of([&] {
        const Machine machine =
            machine_of_processes(std::move(devices), crew->on_this_machine() == crew->size());
        result.plan = make_plan(*model, machine, plan_request(o, machine));
        if (!result.plan.fits) fail(Status::out_of_memory, "{}", refusal_text(result.plan));
        mine.device = make_cpu_device(*model, o.isa, threads_of(o, *crew));
        std::vector<Share> shares;
        for (const RankPlan& rank : result.plan.ranks) shares.push_back(rank.share);
        mine.share = shares[size_t(crew->rank())];
        result.runner = std::make_unique<Runner>(model, std::move(mine), runner_shape(result.plan),
                                                 std::move(shares), crew, progress);
    }));
    return result;
}

}  // namespace

CrewPlace lead(const std::shared_ptr<Processes>& crew, std::shared_ptr<const Model> model,
               const EngineOptions& options, const ProgressCallback& progress) {
    if (crew->rank() != 0)
        fail(Status::unsupported, "process {} of {} serves the first one and can't have an engine of its own",
             crew->rank(), crew->size());
    std::vector<std::byte> order{std::byte(Order::Kind::create)};
    const std::string text = words(options, model->file().path());
    for (const char c : text) order.push_back(std::byte(c));
    crew->give_order(order);
    return place_one(
        crew, options, [&] { return model; }, progress);
}

void serve(const std::shared_ptr<Processes>& crew, const Log& log) {
    CrewPlace place;
    for (;;) {
        const std::vector<std::byte> order = crew->next_order();
        if (order.empty()) return;
        const std::optional<Failure> failure = failure_of([&] {
            switch (kind_of(order)) {
                case Order::Kind::create: {
                    place = {};
                    const std::string text(reinterpret_cast<const char*>(order.data()) + 1, order.size() - 1);
                    const Json j = Json::parse(text).value_or(Json());
                    place = place_one(crew, options_of(j),
                                      [&] { return Model::open(j["path"].get<std::string>()); }, {});
                    break;
                }
                case Order::Kind::destroy:
                    place = {};
                    break;
                default:
                    if (place.runner) carry_out(*place.runner, order);
            }
        });
        // The first process has been told; it decides what comes next.
        if (failure)
            log_line(log, LogLevel::error, fmt::format("rank {}: {}", crew->rank(), failure->message()));
    }
}

}  // namespace coterie
