// The device itself: memory, steps, replay. Its operations are in operations.cpp and sequences.cpp.
#include "cuda/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/failure.h"
#include "cuda/nvml.h"
#include "cuda/weight.h"
#include "device/checks.h"
#include "device/reference/reference_device.h"

namespace coterie::cuda {

namespace {

constexpr uint64_t staging_bytes = uint64_t(8) << 20;
// Weights above this are packed by several threads.
constexpr uint64_t fewest_bytes_shared = uint64_t(1) << 20;

class CudaBuffer final : public Buffer {
  public:
    CudaBuffer(int device, uint64_t bytes) : memory_(device, bytes, "activations") {
        data_ = memory_.data();
        bytes_ = bytes;
    }

  private:
    DeviceMemory memory_;
};

// Thrown while calls are recorded, by what can't be: replay() runs such calls directly.
struct NotRecorded {};

int device_there(int device) {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        fail(Status::unsupported, "no CUDA device can be used: {} ({})", cudaGetErrorString(error),
             cudaGetErrorName(error));
    }
    if (device < 0 || device >= count)
        fail(Status::unsupported, "there is no cuda:{}; this machine has {} CUDA device{}", device, count,
             count == 1 ? "" : "s");
    return device;
}

}  // namespace

struct CudaDevice::Graph {
    int seen = 0;
    uint64_t generation = 0, step_generation = 0;
    bool refused = false;  // its calls can't be recorded
    cudaGraphExec_t executable = nullptr;
    void drop() {
        if (executable) (void)cudaGraphExecDestroy(executable);
        executable = nullptr;
    }
};

std::string pci_text(const cudaDeviceProp& properties) {
    return fmt::format("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID, properties.pciBusID,
                       properties.pciDeviceID);
}

CudaDevice::CudaDevice(const CudaOptions& options)
    : options_(options),
      stream_(device_there(options.device)),
      finished_(options.device),
      copied_{Event(options.device), Event(options.device)},
      step_(options.device),
      staging_(options.device, staging_bytes) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, options.device), options.device, "say what it is");
    if (properties.major < oldest_major)
        fail(Status::unsupported, "cuda:{} ({}) has compute capability {}.{}; Coterie needs {}.0 or later",
             options.device, properties.name, properties.major, properties.minor, oldest_major);
    processors_ = std::max(1, properties.multiProcessorCount);
    pci_ = pci_text(properties);
    card_ = fmt::format("{}, compute capability {}.{}, {} multiprocessors, {} MiB", properties.name,
                        properties.major, properties.minor, processors_, properties.totalGlobalMem >> 20);
}

CudaDevice::~CudaDevice() {
    (void)cudaSetDevice(options_.device);
    for (auto& [key, graph] : graphs_) graph.drop();
}

std::string CudaDevice::name() const {
    return fmt::format("cuda:{}", options_.device);
}
std::string CudaDevice::description() const {
    return card_;
}

std::string CudaDevice::complaint() const {
    const std::string words = Nvml::instance().health(pci_).complaint();
    return words.empty() ? words : fmt::format("{}: {}", name(), words);
}

bool CudaDevice::supports(const WeightSource& source, std::string* why) const {
    if (!ReferenceDevice().supports(source, why)) return false;
    if (source.in() < (int64_t(1) << 31) && source.out() < (int64_t(1) << 31)) return true;
    if (why) *why = fmt::format("{} has a dimension of 2^31 or more", source.name);
    return false;
}

void CudaDevice::done(cudaError_t error, const char* doing) const {
    check(error, options_.device, doing);
}
void CudaDevice::not_recorded(const char*) const {
    if (recording_) throw NotRecorded();
}

// A buffer of the device's own that grows to what a step needs and stays.
void* CudaDevice::scratch(DeviceMemory& memory, uint64_t bytes, const char* what) {
    if (memory.bytes() < bytes) {
        not_recorded(what);
        wait();
        memory = {};
        memory = DeviceMemory(options_.device, bytes, what);
        ++generation_;
    }
    return memory.data();
}

std::unique_ptr<Buffer> CudaDevice::allocate(uint64_t bytes) {
    not_recorded("an allocation");
    made_ = {};  // the memory may be where it was
    auto buffer = std::make_unique<CudaBuffer>(options_.device, bytes);
    if (bytes > 0) done(cudaMemsetAsync(buffer->data(), 0, bytes, stream_.get()), "clear memory");
    wait();
    return buffer;
}

void CudaDevice::copy_in(void* to, const void* from, uint64_t bytes) {
    not_recorded("a copy from the host");
    use(options_.device);
    for (uint64_t at = 0; at < bytes; at += staging_bytes) {
        const uint64_t n = std::min(staging_bytes, bytes - at);
        wait();  // for the staging memory
        std::memcpy(staging_.data(), static_cast<const std::byte*>(from) + at, n);
        done(cudaMemcpyAsync(static_cast<std::byte*>(to) + at, staging_.data(), n, cudaMemcpyHostToDevice,
                             stream_.get()),
             "copy from the host");
    }
    wait();
}

void CudaDevice::copy_out(void* to, const void* from, uint64_t bytes) {
    not_recorded("a copy to the host");
    use(options_.device);
    for (uint64_t at = 0; at < bytes; at += staging_bytes) {
        const uint64_t n = std::min(staging_bytes, bytes - at);
        done(cudaMemcpyAsync(staging_.data(), static_cast<const std::byte*>(from) + at, n,
                             cudaMemcpyDeviceToHost, stream_.get()),
             "copy to the host");
        wait();
        std::memcpy(static_cast<std::byte*>(to) + at, staging_.data(), n);
    }
}

void CudaDevice::write(void* to, const void* from, uint64_t bytes) {
    made_ = {};
    copy_in(to, from, bytes);
}
void CudaDevice::read(void* to, const void* from, uint64_t bytes) {
    copy_out(to, from, bytes);
}

std::unique_ptr<Weight> CudaDevice::prepare(const WeightSource& source) {
    std::string why;
    if (!supports(source, &why)) throw Failure(Status::unsupported, why);
    not_recorded("a weight");
    auto weight = std::make_unique<CudaWeight>(source, options_.device);
    // Rows are packed a staging buffer at a time, plane after plane, by several threads, each of which reads
    // a stretch of the file; while a buffer is copied the other one is filled.
    const Packing& packing = weight->packing;
    const uint64_t file_row = row_bytes(source.type, uint64_t(source.file_in));
    const int64_t row = std::max<int64_t>(1, packing.bytes_of_row());
    const int64_t most = std::max<int64_t>(1, int64_t(staging_bytes) / row);
    const uint64_t part_bytes = std::max(staging_bytes, uint64_t(row));
    wait();
    if (staging_.bytes() < 2 * part_bytes) {
        staging_ = {};
        staging_ = PinnedMemory(options_.device, 2 * part_bytes);
    }
    std::optional<ThreadTeam> team;
    if (packing.bytes() > fewest_bytes_shared)
        team.emplace(options_.pack_threads > 0 ? options_.pack_threads : std::min(4, usable_cores()));
    std::vector<const std::byte*> rows;
    int part = 0;
    for (size_t e = 0; e < source.matrices.size(); ++e) {
        rows.clear();
        for (const Range& range : source.rows)
            for (int64_t r = range.begin; r < range.end; ++r)
                rows.push_back(source.matrices[e] + uint64_t(r) * file_row);
        for (int64_t begin = 0; begin < int64_t(rows.size()); begin += most) {
            const int64_t n = std::min<int64_t>(most, int64_t(rows.size()) - begin);
            part ^= 1;
            copied_[part].wait(options_.deadline_s);
            std::byte* plane_at[Packing::planes];
            std::byte* at = staging_.data() + uint64_t(part) * part_bytes;
            for (int p = 0; p < Packing::planes; ++p)
                plane_at[p] = std::exchange(at, at + n * packing.row_bytes(p));
            const auto pack = [&](int64_t first, int64_t last) {
                for (int64_t r = first; r < last; ++r) {
                    std::byte* to[Packing::planes];
                    for (int p = 0; p < Packing::planes; ++p) to[p] = plane_at[p] + r * packing.row_bytes(p);
                    packing.pack(rows[size_t(begin + r)], to);
                }
            };
            if (team)
                team->run(
                    [&](int member) { pack(n * member / team->size(), n * (member + 1) / team->size()); });
            else
                pack(0, n);
            for (int p = 0; p < Packing::planes; ++p) {
                const int64_t bytes = packing.row_bytes(p);
                if (bytes == 0) continue;
                uint8_t* to = weight->memory.data<uint8_t>() + packing.offset(p) +
                              (int64_t(e) * packing.out + begin) * bytes;
                done(cudaMemcpyAsync(to, plane_at[p], size_t(n * bytes), cudaMemcpyHostToDevice,
                                     stream_.get()),
                     "copy a weight");
            }
            copied_[part].record(stream_.get());
        }
        if (source.release) source.release(source.matrices[e], file_row * uint64_t(source.file_out));
    }
    wait();
    return weight;
}

void CudaDevice::begin(const Step& step) {
    check_step(step);
    use(options_.device);
    made_ = {};
    step_.write(step, stream_.get(), options_.deadline_s);
}

void CudaDevice::wait() {
    not_recorded("a wait");
    use(options_.device);
    finished_.record(stream_.get());
    finished_.wait(options_.deadline_s);
}

// The first time the calls run as they are, and what they need grows; the second time they are recorded.
void CudaDevice::replay(uint64_t key, const std::function<void()>& calls) {
    Graph& graph = graphs_[key];
    made_ = {};  // what is recorded depends on nothing that came before
    if (!options_.graphs || graph.refused || graph.seen++ == 0) return calls();
    if (graph.executable && (graph.generation != generation_ || graph.step_generation != step_.generation()))
        graph.drop();
    use(options_.device);
    if (!graph.executable) record(graph, calls);
    if (!graph.executable) return calls();
    done(cudaGraphLaunch(graph.executable, stream_.get()), "replay a step");
    made_ = {};  // recording may have left some
}

void CudaDevice::record(Graph& graph, const std::function<void()>& calls) {
    done(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal), "record a step");
    cudaGraph_t captured = nullptr;
    recording_ = true;
    try {
        calls();
    } catch (...) {
        recording_ = false;
        (void)cudaStreamEndCapture(stream_.get(), &captured);
        if (captured) (void)cudaGraphDestroy(captured);
        try {
            throw;
        } catch (const NotRecorded&) {
            graph.refused = true;
            return;
        }
    }
    recording_ = false;
    cudaError_t error = cudaStreamEndCapture(stream_.get(), &captured);
    if (error == cudaSuccess) error = cudaGraphInstantiate(&graph.executable, captured, 0);
    if (captured) (void)cudaGraphDestroy(captured);
    done(error, "record a step");
    graph.generation = generation_;
    graph.step_generation = step_.generation();
}

}  // namespace coterie::cuda
