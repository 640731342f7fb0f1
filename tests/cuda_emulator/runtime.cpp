// The fake CUDA runtime: a discrete-event simulator of N devices over host memory. Each stream is a queue;
// work runs when somebody waits for it, streams in an order drawn from a seed, so a missing wait shows as a
// wrong number. Any thread may call; one thing happens at a time.
#include <cuda_runtime.h>
#include <fake_runtime.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "fibers.h"

namespace fake {
namespace {

struct Work {
    const char* name = "";
    std::function<double()> run;  // returns milliseconds on top of cost
    std::function<bool()> ready;
    std::function<double()> not_before;
    double cost = 0;
    const void* host = nullptr;  // pinned memory it uses
    uint64_t number = 0;
};
struct Stream {
    int device = 0;
    bool independent = false;  // of the default stream
    bool is_default = false, destroyed = false;
    std::deque<Work> queue;
    double clock = 0;
};
struct Tick {
    bool done = false;
    double at = 0;
};
struct Graph {
    std::vector<Work> work;
    std::set<Stream*> joined;
};
struct Event {
    std::shared_ptr<Tick> tick;
    Graph* captured = nullptr;
};
struct DeviceState {
    Stream* main = nullptr;
    cudaError_t sticky = cudaSuccess;
    bool hung = false;
    double slow = 1;
    std::set<int> peers;
};
struct Fault {
    std::string call;
    int device, nth;
    cudaError_t error;
};
struct World {
    std::mutex mutex;
    std::condition_variable happened;
    Machine machine;
    std::vector<DeviceState> devices;
    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<std::unique_ptr<Event>> events;
    std::map<uintptr_t, size_t> pinned;
    std::vector<std::string> problems;
    std::vector<Fault> faults;
    std::map<std::string, uint64_t> calls;
    uint64_t bytes_to_host = 0;
    int live_events = 0, live_graphs = 0;
    uint64_t number = 0, random = 1;
    bool begun = false;  // there is a machine, perhaps without devices
};
World& world() {
    static World world;
    return world;
}
using Lock = std::unique_lock<std::mutex>;

thread_local int this_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local Graph* capture = nullptr;
thread_local Stream* capture_stream = nullptr;

void problem(const std::string& text) {
    for (const std::string& known : world().problems)
        if (known == text) return;
    world().problems.push_back(text);
}

cudaError_t failed(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

void begin(const Machine& machine) {
    World& w = world();
    for (int d = 0; d < emulator::most_devices; ++d) emulator::reset_device(d);
    w.streams.clear();
    w.events.clear();
    for (const auto& [memory, bytes] : w.pinned) std::free(reinterpret_cast<void*>(memory));
    w.pinned.clear();
    w.problems.clear();
    w.faults.clear();
    w.calls.clear();
    w.live_events = w.live_graphs = 0;
    w.number = 0;
    w.machine = machine;
    w.begun = true;
    w.devices.assign(size_t(machine.devices), {});
    w.random = machine.seed * 0x9e3779b97f4a7c15u | 1;
    for (int d = 0; d < machine.devices; ++d) {
        w.streams.push_back(std::make_unique<Stream>());
        w.streams.back()->device = d;
        w.streams.back()->is_default = true;
        w.devices[size_t(d)].main = w.streams.back().get();
    }
    emulator::options().architecture = machine.major * 100 + machine.minor * 10;
    emulator::options().seed = machine.seed;
    this_device = 0;
    last_error = cudaSuccess;
}

DeviceState& state(int device) {
    return world().devices[size_t(device)];
}

// Counts the call, and answers planted faults and lost devices.
cudaError_t enter(const char* call, int device) {
    World& w = world();
    if (!w.begun) begin(Machine{});
    ++w.calls[call];
    for (Fault& fault : w.faults)
        if ((fault.device < 0 || fault.device == device) && fault.call == call && fault.nth > 0 &&
            --fault.nth == 0)
            return last_error = fault.error;
    if (device >= 0 && device < int(w.devices.size()) && state(device).sticky)
        return last_error = state(device).sticky;
    return cudaSuccess;
}

Stream* stream_of(cudaStream_t stream) {
    return stream ? reinterpret_cast<Stream*>(stream) : state(this_device).main;
}

bool can_run(const Stream& stream) {
    World& w = world();
    if (stream.queue.empty() || state(stream.device).hung) return false;
    if (state(stream.device).sticky) return true;  // drains
    const Work& front = stream.queue.front();
    for (const auto& other : w.streams)  // the default stream and the blocking ones wait for each other
        if (other.get() != &stream && other->device == stream.device && !other->queue.empty() &&
            !other->independent && !stream.independent && (stream.is_default || other->is_default) &&
            other->queue.front().number < front.number)
            return false;
    return !front.ready || front.ready();
}

bool step() {
    World& w = world();
    std::vector<Stream*> able;
    for (const auto& stream : w.streams)
        if (can_run(*stream)) able.push_back(stream.get());
    if (able.empty()) return false;
    Stream& stream = *able[emulator::next_random(w.random) % able.size()];
    const Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    DeviceState& device = state(stream.device);
    if (!device.sticky) {
        emulator::current_device() = stream.device;
        const double extra = work.run ? work.run() : 0;
        const double earliest = work.not_before ? work.not_before() : 0;
        stream.clock = std::max(stream.clock, earliest) + (work.cost + extra) * device.slow;
    }
    w.happened.notify_all();
    return true;
}

void push(Stream* stream, Work work) {
    if (capture && (capture_stream == stream || capture->joined.count(stream))) {
        capture->work.push_back(std::move(work));
        return;
    }
    World& w = world();
    work.number = ++w.number;
    stream->queue.push_back(std::move(work));
    if (w.machine.mode == Mode::eager)
        while (!stream->queue.empty() && step()) {
        }
}

cudaError_t wait_until(Lock& lock, int device, const std::function<bool()>& done, const char* what) {
    World& w = world();
    while (!done()) {
        if (state(device).sticky && !state(device).hung) {
            while (step()) {
            }
            return failed(state(device).sticky);
        }
        if (step()) continue;
        const auto patience = std::chrono::duration<double, std::milli>(w.machine.deadlock_ms);
        if (w.happened.wait_for(lock, patience) == std::cv_status::timeout && !done() && !step()) {
            std::string text = std::string("nothing can happen while in ") + what + ":";
            for (const auto& stream : w.streams)
                if (!stream->queue.empty())
                    text += " [device " + std::to_string(stream->device) +
                            (state(stream->device).hung ? " hung" : "") +
                            ", next: " + stream->queue.front().name + "]";
            problem(text);
            return failed(cudaErrorLaunchTimeout);
        }
    }
    return failed(state(device).sticky);
}

std::function<bool()> device_idle(int device) {
    return [device] {
        for (const auto& stream : world().streams)
            if (stream->device == device && !stream->queue.empty()) return false;
        return true;
    };
}

bool is_pinned(const void* memory) {
    const auto& pinned = world().pinned;
    auto next = pinned.upper_bound(reinterpret_cast<uintptr_t>(memory));
    if (next == pinned.begin()) return false;
    --next;
    return reinterpret_cast<uintptr_t>(memory) < next->first + next->second;
}

bool inside(const void* memory, size_t bytes, const char* call) {
    if (bytes == 0 || emulator::device_of(memory) < 0 || emulator::holds(memory, bytes)) return true;
    problem(std::string(call) + ": " + std::to_string(bytes) +
            " bytes of device memory run past their allocation (" + emulator::describe(memory) + ")");
    return false;
}

// Queues a copy; `waits` when the caller must wait for it, as for memory that is not pinned.
cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, Stream* stream, bool& waits) {
    const bool to_device = emulator::device_of(to) >= 0, from_device = emulator::device_of(from) >= 0;
    const bool fits = kind == cudaMemcpyHostToDevice     ? to_device && !from_device
                      : kind == cudaMemcpyDeviceToHost   ? !to_device && from_device
                      : kind == cudaMemcpyDeviceToDevice ? to_device && from_device
                                                         : true;
    if (bytes && !fits) {
        problem("cudaMemcpy: the kind does not match the pointers");
        return failed(cudaErrorInvalidValue);
    }
    if (!inside(to, bytes, "cudaMemcpy") || !inside(from, bytes, "cudaMemcpy"))
        return failed(cudaErrorInvalidValue);
    const void* host = !to_device ? to : !from_device ? from : nullptr;
    const bool pinned = host && is_pinned(host);
    waits = from_device && !to_device && !pinned;
    std::shared_ptr<std::vector<char>> taken;
    if (to_device && !from_device && !pinned) {  // the driver takes a copy of its own
        const char* bytes_of = static_cast<const char*>(from);
        taken = std::make_shared<std::vector<char>>(bytes_of, bytes_of + bytes);
        from = taken->data();
    }
    if (from_device && !to_device) world().bytes_to_host += bytes;
    Work work;
    work.name = "memcpy";
    work.run = [=] {
        (void)taken;
        if (bytes) std::memcpy(to, from, bytes);
        return 0.0;
    };
    work.cost = double(bytes) / 16e6;  // 16 GB/s
    work.host = pinned ? host : nullptr;
    push(stream, std::move(work));
    return cudaSuccess;
}

}  // namespace

void reset(const Machine& machine) {
    const Lock lock(world().mutex);
    begin(machine);
}
void fail_call(const std::string& call, int device, int nth, int error) {
    world().faults.push_back({call, device, nth, cudaError_t(error)});
}
void lose_device(int device) {
    state(device).sticky = cudaErrorDevicesUnavailable;
    world().happened.notify_all();
}
void hang_device(int device, bool hung) {
    state(device).hung = hung;
}
void slow_device(int device, double factor) {
    state(device).slow = factor;
}
double virtual_ms(int device) {
    double most = 0;
    for (const auto& stream : world().streams)
        if (stream->device == device) most = std::max(most, stream->clock);
    return most;
}
std::vector<std::string> problems() {
    std::vector<std::string> all = world().problems;
    for (const emulator::Report& r : emulator::reports()) all.push_back(r.kind + ": " + r.text);
    return all;
}
uint64_t bytes_to_host() {
    return world().bytes_to_host;
}
uint64_t calls(const std::string& call) {
    return world().calls[call];
}
Leaks leaks() {
    World& w = world();
    Leaks found{0, -int(w.devices.size()), w.live_events, w.live_graphs, int(w.pinned.size())};
    for (int d = 0; d < int(w.devices.size()); ++d) found.bytes += emulator::used_bytes(d);
    for (const auto& stream : w.streams) found.streams += !stream->destroyed;
    return found;
}

}  // namespace fake

using namespace fake;

// What every call begins with: the lock, then the check of enter().
#define FAKE_CALL(name, device) \
    Lock lock(world().mutex);   \
    if (cudaError_t entry = enter(name, device)) return entry
#define FAKE_NOT_CAPTURED(name)                                                          \
    if (capture) {                                                                       \
        problem(std::string(name) + " is not allowed while a stream is being captured"); \
        return failed(cudaErrorStreamCaptureUnsupported);                                \
    }

namespace emulator {

cudaError_t enqueue(cudaStream_t to, const Grid& grid, void (*call)(void*), std::shared_ptr<void> arguments) {
    FAKE_CALL("launch", this_device);
    Stream* stream = stream_of(to);
    if (stream->device != this_device) {
        problem(std::string("the launch of ") + grid.name + " goes to a stream of another device");
        return failed(cudaErrorInvalidResourceHandle);
    }
    const dim3 g = grid.grid, b = grid.block;
    const uint64_t threads = uint64_t(b.x) * b.y * b.z;
    if (!threads || threads > 1024 || b.z > 64 || !g.x || !g.y || !g.z || g.x > 0x7fffffff || g.y > 65535 ||
        g.z > 65535 || grid.shared_bytes > 96 * 1024) {
        problem(std::string("the launch of ") + grid.name + " has impossible dimensions");
        return failed(cudaErrorInvalidConfiguration);
    }
    const int device = stream->device;
    Work work;
    work.name = grid.name;
    work.cost = 0.005;
    work.run = [=] {
        if (!run(grid, call, arguments.get())) state(device).sticky = cudaErrorIllegalAddress;
        return 0.0;
    };
    push(stream, std::move(work));
    return cudaSuccess;
}

}  // namespace emulator

extern "C" {

// --- devices
cudaError_t cudaGetDeviceCount(int* count) {
    FAKE_CALL("cudaGetDeviceCount", -1);
    *count = world().machine.devices;
    return *count ? cudaSuccess : failed(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
    FAKE_CALL("cudaSetDevice", device);
    if (device < 0 || device >= world().machine.devices) return failed(cudaErrorInvalidDevice);
    this_device = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
    *device = this_device;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
    FAKE_CALL("cudaGetDeviceProperties", device);
    *p = {};
    std::snprintf(p->name, sizeof p->name, "Emulated GPU %d", device);
    p->major = world().machine.major;
    p->minor = world().machine.minor;
    p->totalGlobalMem = world().machine.memory_bytes;
    p->multiProcessorCount = 8;
    p->pciBusID = device + 1;
    p->sharedMemPerBlockOptin = 96 << 10;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    FAKE_CALL("cudaDeviceGetAttribute", device);
    *value = attribute == cudaDevAttrComputeCapabilityMajor         ? world().machine.major
             : attribute == cudaDevAttrComputeCapabilityMinor       ? world().machine.minor
             : attribute == cudaDevAttrMultiProcessorCount          ? 8
             : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 96 << 10
             : attribute == cudaDevAttrClockRate                    ? 1500000
             : attribute == cudaDevAttrMemoryClockRate              ? 877000
             : attribute == cudaDevAttrGlobalMemoryBusWidth         ? 4096
                                                                    : 0;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    FAKE_CALL("cudaMemGetInfo", this_device);
    *total = world().machine.memory_bytes;
    *free = *total - emulator::used_bytes(this_device);
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    FAKE_CALL("cudaDeviceSynchronize", this_device);
    FAKE_NOT_CAPTURED("cudaDeviceSynchronize");
    return wait_until(lock, this_device, device_idle(this_device), "cudaDeviceSynchronize");
}
cudaError_t cudaGetLastError() {
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}
cudaError_t cudaPeekAtLastError() {
    return last_error;
}
const char* cudaGetErrorName(cudaError_t error) {
    switch (error) {
        case cudaSuccess:
            return "cudaSuccess";
        case cudaErrorMemoryAllocation:
            return "cudaErrorMemoryAllocation";
        case cudaErrorIllegalAddress:
            return "cudaErrorIllegalAddress";
        case cudaErrorDevicesUnavailable:
            return "cudaErrorDevicesUnavailable";
        case cudaErrorLaunchTimeout:
            return "cudaErrorLaunchTimeout";
        case cudaErrorNoDevice:
            return "cudaErrorNoDevice";
        case cudaErrorInvalidConfiguration:
            return "cudaErrorInvalidConfiguration";
        default:
            return "cudaErrorUnknown";
    }
}
const char* cudaGetErrorString(cudaError_t error) {
    return cudaGetErrorName(error);
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    FAKE_CALL("cudaDeviceCanAccessPeer", device);
    *can = world().machine.peers && device != peer;
    return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
    FAKE_CALL("cudaDeviceEnablePeerAccess", this_device);
    if (!world().machine.peers) return failed(cudaErrorPeerAccessUnsupported);
    if (!state(this_device).peers.insert(peer).second) return failed(cudaErrorPeerAccessAlreadyEnabled);
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
    *version = 13000;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = 13000;
    return cudaSuccess;
}

// --- memory
cudaError_t cudaMalloc(void** to, size_t bytes) {
    FAKE_CALL("cudaMalloc", this_device);
    FAKE_NOT_CAPTURED("cudaMalloc");
    *to = nullptr;
    if (!bytes) return cudaSuccess;
    if (bytes > world().machine.memory_bytes - emulator::used_bytes(this_device))
        return failed(cudaErrorMemoryAllocation);
    *to = emulator::allocate(this_device, bytes);
    return *to ? cudaSuccess : failed(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* memory) {
    const int device = emulator::device_of(memory);
    FAKE_CALL("cudaFree", device);
    if (!memory) return cudaSuccess;
    FAKE_NOT_CAPTURED("cudaFree");
    if (device < 0) return failed(cudaErrorInvalidValue);
    if (const cudaError_t error = wait_until(lock, device, device_idle(device), "cudaFree")) return error;
    return emulator::release(memory) ? cudaSuccess : failed(cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void** to, size_t bytes, unsigned) {
    FAKE_CALL("cudaHostAlloc", this_device);
    FAKE_NOT_CAPTURED("cudaHostAlloc");
    *to = std::malloc(bytes ? bytes : 1);
    world().pinned[reinterpret_cast<uintptr_t>(*to)] = bytes;
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
    FAKE_CALL("cudaFreeHost", -1);
    const auto found = world().pinned.find(reinterpret_cast<uintptr_t>(memory));
    if (found == world().pinned.end()) return failed(cudaErrorInvalidValue);
    for (const auto& stream : world().streams)
        for (const Work& work : stream->queue) {
            const auto host = reinterpret_cast<uintptr_t>(work.host);
            if (host >= found->first && host < found->first + found->second)
                problem(std::string("pinned memory is freed while ") + work.name + " still uses it");
        }
    world().pinned.erase(found);
    std::free(memory);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t on) {
    FAKE_CALL("cudaMemcpyAsync", this_device);
    Stream* stream = stream_of(on);
    bool waits = false;
    if (const cudaError_t error = copy(to, from, bytes, kind, stream, waits)) return error;
    if (!waits) return cudaSuccess;
    FAKE_NOT_CAPTURED("a copy to memory that is not pinned");
    return wait_until(
        lock, stream->device, [stream] { return stream->queue.empty(); }, "cudaMemcpyAsync");
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    FAKE_CALL("cudaMemcpy", this_device);
    FAKE_NOT_CAPTURED("cudaMemcpy");
    Stream* stream = stream_of(nullptr);
    bool waits = false;
    if (const cudaError_t error = copy(to, from, bytes, kind, stream, waits)) return error;
    return wait_until(
        lock, stream->device, [stream] { return stream->queue.empty(); }, "cudaMemcpy");
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t on) {
    FAKE_CALL("cudaMemcpyPeerAsync", this_device);
    bool waits = false;
    return copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream_of(on), waits);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t on) {
    FAKE_CALL("cudaMemsetAsync", this_device);
    if (!inside(to, bytes, "cudaMemset")) return failed(cudaErrorInvalidValue);
    Work work;
    work.name = "memset";
    work.run = [=] {
        std::memset(to, value, bytes);
        return 0.0;
    };
    push(stream_of(on), std::move(work));
    return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
    return cudaMemsetAsync(to, value, bytes, nullptr);
}

// --- streams and events
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    FAKE_CALL("cudaStreamCreate", this_device);
    auto made = std::make_unique<Stream>();
    made->device = this_device;
    made->independent = flags & cudaStreamNonBlocking;
    *stream = reinterpret_cast<cudaStream_t>(made.get());
    world().streams.push_back(std::move(made));
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    FAKE_CALL("cudaStreamDestroy", -1);
    stream_of(stream)->destroyed = true;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t on) {
    FAKE_CALL("cudaStreamSynchronize", this_device);
    FAKE_NOT_CAPTURED("cudaStreamSynchronize");
    Stream* stream = stream_of(on);
    return wait_until(
        lock, stream->device, [stream] { return stream->queue.empty(); }, "cudaStreamSynchronize");
}
cudaError_t cudaStreamQuery(cudaStream_t on) {
    FAKE_CALL("cudaStreamQuery", this_device);
    Stream* stream = stream_of(on);
    step();
    return stream->queue.empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    FAKE_CALL("cudaEventCreate", this_device);
    world().events.push_back(std::make_unique<Event>());
    *event = reinterpret_cast<cudaEvent_t>(world().events.back().get());
    ++world().live_events;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) {  // kept, as queued work may name it
    FAKE_CALL("cudaEventDestroy", -1);
    --world().live_events;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t which, cudaStream_t on) {
    FAKE_CALL("cudaEventRecord", this_device);
    auto* event = reinterpret_cast<Event*>(which);
    Stream* stream = stream_of(on);
    const auto tick = std::make_shared<Tick>();
    event->tick = tick;
    event->captured = capture;
    Work work;
    work.name = "event";
    work.run = [=] {
        tick->done = true;
        tick->at = stream->clock;
        return 0.0;
    };
    push(stream, std::move(work));
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t on, cudaEvent_t which, unsigned) {
    FAKE_CALL("cudaStreamWaitEvent", this_device);
    const auto* event = reinterpret_cast<Event*>(which);
    Stream* stream = stream_of(on);
    if (!event->tick) return cudaSuccess;
    if (capture && event->captured == capture) {
        capture->joined.insert(stream);
        return cudaSuccess;
    }
    const auto tick = event->tick;
    Work work;
    work.name = "wait for an event";
    work.ready = [=] { return tick->done; };
    work.not_before = [=] { return tick->at; };
    push(stream, std::move(work));
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t which) {
    FAKE_CALL("cudaEventSynchronize", this_device);
    const auto tick = reinterpret_cast<Event*>(which)->tick;
    if (!tick) return cudaSuccess;
    return wait_until(
        lock, this_device, [tick] { return tick->done; }, "cudaEventSynchronize");
}
cudaError_t cudaEventQuery(cudaEvent_t which) {
    FAKE_CALL("cudaEventQuery", this_device);
    const auto tick = reinterpret_cast<Event*>(which)->tick;
    if (tick && !tick->done) step();
    return !tick || tick->done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
    FAKE_CALL("cudaEventElapsedTime", this_device);
    const auto a = reinterpret_cast<Event*>(from)->tick, b = reinterpret_cast<Event*>(to)->tick;
    if (!a || !b || !a->done || !b->done) return failed(cudaErrorNotReady);
    *milliseconds = float(b->at - a->at);
    return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t on, cudaHostFn_t function, void* data) {
    FAKE_CALL("cudaLaunchHostFunc", this_device);
    Work work;
    work.name = "host function";
    work.run = [=] {
        function(data);
        return 0.0;
    };
    push(stream_of(on), std::move(work));
    return cudaSuccess;
}

// --- graphs
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    FAKE_CALL("cudaStreamBeginCapture", this_device);
    if (capture || !stream) return failed(cudaErrorIllegalState);
    capture = new Graph;
    capture_stream = stream_of(stream);
    ++world().live_graphs;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
    Lock lock(world().mutex);
    *graph = reinterpret_cast<cudaGraph_t>(capture);
    capture = nullptr;
    return *graph ? enter("cudaStreamEndCapture", this_device) : failed(cudaErrorIllegalState);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
    FAKE_CALL("cudaGraphInstantiate", this_device);
    *executable = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
    ++world().live_graphs;
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t on) {
    FAKE_CALL("cudaGraphLaunch", this_device);
    for (const Work& work : reinterpret_cast<Graph*>(executable)->work) push(stream_of(on), work);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    FAKE_CALL("cudaGraphDestroy", -1);
    --world().live_graphs;
    delete reinterpret_cast<Graph*>(graph);
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    FAKE_CALL("cudaGraphExecDestroy", -1);
    --world().live_graphs;
    delete reinterpret_cast<Graph*>(executable);
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int value) {
    FAKE_CALL("cudaFuncSetAttribute", this_device);
    return value <= 96 * 1024 ? cudaSuccess : failed(cudaErrorInvalidValue);
}
}
