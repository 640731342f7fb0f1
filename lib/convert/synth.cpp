#include "convert/synth.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/failure.h"
#include "convert/random.h"
#include "quant/encode.h"

namespace coterie::convert {
namespace {

constexpr uint64_t batch_bytes = uint64_t(8) << 20;
constexpr int64_t pool_weights = int64_t(1) << 20;

// How a tensor's numbers are drawn: normal with a mean and a deviation, or what a decay must be.
struct Distribution {
    float mean = 0, deviation = 0;
    bool decay = false;  // -exp(...): the delta net's negative rates
};

bool ends_with(std::string_view name, std::string_view tail) {
    return name.ends_with(tail);
}

// Matrices keep the size of what they multiply; gains are near one; the rest is small.
Distribution distribution_of(const ShapeTensor& tensor) {
    const std::string_view name = tensor.name;
    if (ends_with(name, "ssm_a")) return {1, 0.5f, true};
    if (name.find("norm") != std::string_view::npos) return {1, 0.1f};
    if (name.find("conv1d") != std::string_view::npos) return {0, 0.4f};
    if (ends_with(name, "ssm_dt.bias")) return {-3, 1};
    if (ends_with(name, "attn_sinks.weight")) return {0, 1};
    if (ends_with(name, ".bias")) return {0, 0.02f};
    return {0, 1 / std::sqrt(float(tensor.shape[0]))};
}

// Encoded blocks to draw rows from, per type and deviation.
class Pools {
  public:
    explicit Pools(uint64_t seed) : random_(seed) {}

    const std::vector<std::byte>& pool(Type type, const Distribution& d) {
        std::vector<std::byte>& pool = pools_[{type, d.deviation, d.mean}];
        if (pool.empty()) {
            std::vector<float> floats(static_cast<size_t>(pool_weights));
            for (float& f : floats) f = d.mean + d.deviation * random_.normal();
            pool.resize(row_bytes(type, uint64_t(pool_weights)));
            quant::encode(type, floats.data(), pool.data(), pool_weights);
        }
        return pool;
    }

  private:
    Random random_;
    std::map<std::tuple<Type, float, float>, std::vector<std::byte>> pools_;
};

class Filler {
  public:
    Filler(gguf::Writer& writer, uint64_t seed, uint64_t total, const ProgressCallback& progress)
        : writer_(writer),
          random_(seed),
          pools_(seed ^ 0x5eed),
          total_(total),
          progress_(progress),
          batch_(batch_bytes) {}

    void fill(const ShapeTensor& tensor, Type type) {
        const Distribution d = distribution_of(tensor);
        uint64_t rows = 1;
        for (size_t i = 1; i < tensor.shape.size(); ++i) rows *= tensor.shape[i];
        if (tensor.shape.size() == 1 || d.decay)
            fill_numbers(tensor.shape[0] * rows, d);
        else
            fill_rows(type, d, row_bytes(type, tensor.shape[0]), rows);
    }

  private:
    // Vectors: each number its own.
    void fill_numbers(uint64_t n, const Distribution& d) {
        std::vector<float> floats(n);
        for (float& f : floats) {
            f = d.mean + d.deviation * random_.normal();
            if (d.decay) f = -std::exp(f);
        }
        append(std::as_bytes(std::span(floats)));
    }

    // Matrices: every row is a run of the pool from a random block on, so rows differ and none costs an
    // encoding.
    void fill_rows(Type type, const Distribution& d, uint64_t row, uint64_t rows) {
        const std::vector<std::byte>& pool = pools_.pool(type, d);
        const uint64_t block = uint64_t(traits(type).block_bytes);
        const uint64_t run = std::min<uint64_t>(row, pool.size() / 2 / block * block);  // whole blocks
        const uint64_t starts = (pool.size() - run) / block + 1;
        uint64_t used = 0;
        for (uint64_t r = 0; r < rows; ++r)
            for (uint64_t at = 0; at < row;) {
                const uint64_t piece = std::min(run, row - at);
                if (piece > batch_.size() - used) {
                    append(std::span(batch_).first(used));
                    used = 0;
                }
                std::memcpy(batch_.data() + used, pool.data() + random_.below(starts) * block, piece);
                used += piece;
                at += piece;
            }
        append(std::span(batch_).first(used));
    }

    void append(std::span<const std::byte> bytes) {
        report_progress(progress_, "writing", done_, total_);
        writer_.append(bytes);
        done_ += bytes.size();
    }

    gguf::Writer& writer_;
    Random random_;
    Pools pools_;
    uint64_t total_, done_ = 0;
    const ProgressCallback& progress_;
    std::vector<std::byte> batch_;
};

}  // namespace

uint64_t synth(const ModelShape& shape, const std::string& out_path, const SynthOptions& options,
               const ProgressCallback& progress) {
    const std::vector<ShapeTensor> tensors = shape_tensors(shape);
    const quant::Recipe recipe = options.recipe.value_or(shape.recipe);
    std::vector<quant::RecipeTensor> views;
    for (const ShapeTensor& t : tensors) views.push_back({t.name, t.shape, t.type});
    const std::vector<Type> types = quant::recipe_types(
        recipe, views, {shape.architecture, shape.layers, shape.experts, shape.heads, shape.kv_heads});

    gguf::Writer writer(out_path, options.header_only);
    set_metadata(shape, writer);
    writer.set("general.file_type", quant::file_type(recipe));
    writer.set("general.quantization_version", uint32_t(2));
    for (size_t i = 0; i < tensors.size(); ++i)
        writer.add_tensor(tensors[i].name, types[i], tensors[i].shape);
    const uint64_t total = writer.data_bytes();
    if (!options.header_only) {
        Filler filler(writer, options.seed, total, progress);
        for (size_t i = 0; i < tensors.size(); ++i) filler.fill(tensors[i], types[i]);
    }
    report_progress(progress, "writing", total, total);
    writer.finish();
    return total;
}

}  // namespace coterie::convert
