#include "engine/placement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/failure.h"
#include "device/cpu/cpu_device.h"
#include "device/cuda_backend.h"
#include "device/reference/reference_device.h"
#include "device/staged_communicator.h"
#include "device/thread_communicator.h"

namespace coterie {
namespace {

// How long a rank waits for the others before it says who is missing: far more than a layer takes.
constexpr std::chrono::seconds rank_deadline(120);
constexpr int most_ranks = 16;

// Up to this size a model's activations keep 16 bits on the CPU: small models feel the rounding to 8 and are
// fast anyway (docs/decisions/0004-fine-activations.md).
constexpr uint64_t fine_weight_bytes = uint64_t(512) << 20;

struct Words {
    DeviceKind kind = DeviceKind::cpu;
    int ranks = 0;             // 0: not said
    std::vector<int> numbers;  // of GPUs; empty: all that can be used
};

// "0,2"
std::vector<int> read_numbers(const std::string& devices, const char* at) {
    std::vector<int> numbers;
    const char* end = devices.data() + devices.size();
    for (;; ++at) {
        int number = -1;
        const auto [stop, error] = std::from_chars(at, end, number);
        if (error != std::errc{} || number < 0 || (stop != end && *stop != ',') ||
            std::count(numbers.begin(), numbers.end(), number))
            fail(Status::invalid_argument,
                 "devices '{}' are not known; after cuda: come different numbers, as in cuda:0,1", devices);
        numbers.push_back(number);
        at = stop;
        if (stop == end) return numbers;
    }
}

CudaBackend& cuda() {
    std::string why;
    CudaBackend* backend = cuda_backend(&why);
    if (!backend) fail(Status::unsupported, "{}", why);
    return *backend;
}

Machine machine_of_gpus(std::vector<int> numbers) {
    const CudaFacts facts = cuda().facts();
    if (numbers.empty())
        for (const CudaDeviceFacts& d : facts.devices)
            if (d.why_not.empty()) numbers.push_back(d.number);
    if (numbers.empty())
        fail(Status::unsupported, "this machine has no GPU that can be used{}{}; `coterie devices` says more",
             facts.missing.empty() ? "" : ": ", fmt::join(facts.missing, ", "));
    return live_cuda_machine(facts, numbers);
}

Words read(const std::string& devices) {
    Words words;
    const size_t colon = devices.find(':');
    const std::string kind = devices.substr(0, colon);
    if (kind == "reference")
        words.kind = DeviceKind::reference;
    else if (kind == "cuda")
        words.kind = DeviceKind::cuda;
    else if (!kind.empty() && kind != "cpu")
        fail(Status::invalid_argument,
             "devices '{}' are not known; use cpu, cpu:N, cuda, cuda:0,1 or reference", devices);
    if (colon == std::string::npos) return words;
    if (words.kind == DeviceKind::cuda) {
        words.numbers = read_numbers(devices, devices.data() + colon + 1);
        return words;
    }
    const char *begin = devices.data() + colon + 1, *end = devices.data() + devices.size();
    const auto [stop, error] = std::from_chars(begin, end, words.ranks);
    if (error != std::errc{} || stop != end || words.ranks < 1 || words.ranks > most_ranks)
        fail(Status::invalid_argument, "devices '{}' are not known; the number after the colon is 1 to {}",
             devices, most_ranks);
    return words;
}

std::vector<NumaNode> nodes_of(const DeviceRequest& request) {
    return request.nodes ? *request.nodes : numa_nodes();
}

std::unique_ptr<Device> make_device(const RankPlan& rank, const Model& model, const DeviceRequest& request,
                                    size_t cpu_ranks, bool pin) {
    if (rank.kind == DeviceKind::reference) return std::make_unique<ReferenceDevice>();
    if (rank.kind == DeviceKind::cuda) {
        CudaRequest wanted;
        wanted.device = read_numbers(rank.device, rank.device.data() + std::string("cuda:").size()).at(0);
        return cuda().open(wanted);
    }
    const int threads = request.threads > 0 ? request.threads : usable_cores();
    return make_cpu_device(model, request.isa, std::max(1, threads / int(cpu_ranks)), pin);
}

}  // namespace

std::unique_ptr<Device> make_cpu_device(const Model& model, const std::string& isa, int threads, bool pin) {
    CpuOptions options;
    options.threads = threads;
    options.pin = pin;
    options.fine = model.weight_bytes() <= fine_weight_bytes;
    if (!isa.empty()) options.isa = isa;
    return std::make_unique<CpuDevice>(options);
}

Mode mode_named(const std::string& name) {
    for (const Mode mode : {Mode::automatic, Mode::tensor, Mode::expert, Mode::layer})
        if (name == mode_name(mode)) return mode;
    fail(Status::invalid_argument, "mode '{}' is not known; auto, tensor, expert and layer are", name);
}

Machine machine_for(const DeviceRequest& request) {
    const Words words = read(request.devices);
    if (words.kind == DeviceKind::cuda) return machine_of_gpus(words.numbers);
    if (words.kind != DeviceKind::cpu) return live_machine(std::max(words.ranks, 1), words.kind);
    const std::vector<NumaNode> nodes = nodes_of(request);
    const int own = std::clamp(int(nodes.size()), 1, most_ranks);
    return live_machine(words.ranks > 0 ? words.ranks : own, words.kind, nodes);
}

std::vector<RankPlace> place(const Model& model, const Plan& plan, const DeviceRequest& request) {
    if (!plan.fits) fail(Status::out_of_memory, "{}", refusal_text(plan));
    const size_t ranks = plan.ranks.size();
    const size_t cpu_ranks = size_t(std::count_if(
        plan.ranks.begin(), plan.ranks.end(), [](const RankPlan& r) { return r.kind == DeviceKind::cpu; }));
    std::vector<std::unique_ptr<Communicator>> communicators;
    if (ranks == 1)
        communicators.push_back(std::make_unique<SoloCommunicator>());
    else
        communicators = make_thread_communicators(int(ranks), rank_deadline);
    std::vector<RankPlace> places;
    const std::vector<NumaNode> nodes = nodes_of(request);
    int cpu_rank = 0;
    for (size_t r = 0; r < ranks; ++r) {
        const bool on_cpu = plan.ranks[r].kind == DeviceKind::cpu && plan.host_experts == 0;
        const int node = on_cpu ? node_of(cpu_rank++, int(cpu_ranks), nodes) : -1;
        RankPlace place;
        if (node >= 0) place.node = nodes[size_t(node)];
        // The device's threads are started here, and stay on the node.
        const NodeScope scope(place.node ? &*place.node : nullptr);
        place.device = make_device(plan.ranks[r], model, request, cpu_ranks, node >= 0);
        place.communicator = std::move(communicators[r]);
        // GPUs meet in host memory, as no link between them has been verified.
        if (ranks > 1 && plan.ranks[r].kind == DeviceKind::cuda)
            place.communicator = make_staged_communicator(std::move(place.communicator), *place.device);
        place.share = plan.ranks[r].share;
        places.push_back(std::move(place));
    }
    return places;
}

std::vector<RankPlace> place(const Model& model, const DeviceRequest& request) {
    PlanRequest wanted;
    wanted.context_tokens = plan_page_tokens;
    wanted.mode = request.mode;
    wanted.checkpoints = 0;
    return place(model, make_plan(model, machine_for(request), wanted), request);
}

}  // namespace coterie
