#include "execute/loader.h"

#include <cmath>
#include <vector>

#include "base/failure.h"
#include "model/rope_frequencies.h"
#include "quant/decode.h"

namespace coterie {
namespace {

// The kept numbers of a vector or a table of taps, as F32: [matrices][rows][columns].
std::vector<float> decode_numbers(const WeightSource& source) {
    if (!quant::can_decode(source.type) || traits(source.type).block_elements != 1)
        fail(Status::unsupported, "'{}' is {}, expected F32, F16 or BF16", source.name,
             type_name(source.type));
    std::vector<float> result;
    std::vector<float> all(size_t(source.file_in * source.file_out));
    for (const std::byte* matrix : source.matrices) {
        quant::decode(source.type, matrix, all.data(), int64_t(all.size()));
        for (const Range& rows : source.rows)
            for (int64_t r = rows.begin; r < rows.end; ++r)
                for (const Range& columns : source.columns)
                    result.insert(result.end(), all.begin() + r * source.file_in + columns.begin,
                                  all.begin() + r * source.file_in + columns.end);
    }
    return result;
}

// Transforms that a converter may have left out of a model with delta nets: -exp() of the decays, and 1 added
// to norms that were trained around zero. Both would load, and answer nonsense.
class ConversionCheck {
  public:
    void see(const TensorEntry& entry, std::span<const float> numbers, const Hyperparameters& h) {
        if (!h.has_states()) return;
        if (entry.part == Part::delta_a) {
            for (const float a : numbers)
                if (!(a < 0.0f))
                    fail(Status::bad_model,
                         "'{}' holds {}, but decays are negative: the converter left out -exp(); convert the "
                         "model again",
                         entry.tensors.front()->name, a);
        }
        if (entry.part == Part::attention_norm) {
            for (const float w : numbers) sum_ += w;
            count_ += int64_t(numbers.size());
        }
    }
    void finish(const std::string& path) const {
        if (count_ > 0 && std::abs(sum_ / double(count_)) < 0.1)
            fail(Status::bad_model,
                 "the norms before attention in '{}' are {:.3f} on average, expected about 1: the converter "
                 "did not add 1 to them; convert the model again",
                 path, sum_ / double(count_));
    }

  private:
    double sum_ = 0;
    int64_t count_ = 0;
};

std::unique_ptr<Buffer> upload(Device& device, std::span<const float> numbers) {
    std::unique_ptr<Buffer> buffer = device.allocate(numbers.size_bytes());
    device.write(buffer->data(), numbers.data(), numbers.size_bytes());
    return buffer;
}

// The file's divisors of the rope frequencies, if it has any for this context.
std::vector<float> rope_factors(const Model& model, int64_t context_tokens) {
    const TensorTable& table = model.table();
    const double original = model.numbers().rope.scaling.original_context;
    const TensorEntry* entry = table.find(Part::rope_factors);
    if (!entry)
        entry = table.find(double(context_tokens) > original ? Part::rope_factors_long
                                                             : Part::rope_factors_short);
    if (!entry) return {};
    return decode_numbers(shard_source(*entry, model.numbers(), whole_share(model.numbers())));
}

Rope place_rope(Device& device, const RopeNumbers& numbers, std::span<const float> factors,
                std::unique_ptr<Buffer>& memory) {
    const RopeFrequencies f = rope_frequencies(numbers, factors);
    memory = upload(device, f.frequencies);
    return {numbers.pairs, numbers.dimensions, static_cast<const float*>(memory->data()), f.magnitude};
}

}  // namespace

RankWeights load_weights(const Model& model, const Share& share, Device& device, int64_t context_tokens,
                         const ProgressCallback& progress) {
    const Hyperparameters& h = model.numbers();
    RankWeights weights(h.layers);
    uint64_t total = 0, done = 0;
    ConversionCheck check;
    for (const TensorEntry& entry : model.table().entries())
        if (holds(entry, share)) total += entry.tensors.front()->bytes * entry.tensors.size();
    for (const TensorEntry& entry : model.table().entries()) {
        if (!holds(entry, share)) continue;
        report_progress(progress, "loading", done, total);
        done += entry.tensors.front()->bytes * entry.tensors.size();
        WeightSource source = shard_source(entry, h, share);
        if (source.in() == 0 || source.out() == 0 || source.experts() == 0) continue;
        if (entry.kind == Kind::vector || entry.kind == Kind::taps) {
            const std::vector<float> numbers = decode_numbers(source);
            check.see(entry, numbers, h);
            weights.set(entry.part, entry.layer, upload(device, numbers));
            continue;
        }
        std::string why;
        if (!device.supports(source, &why)) fail(Status::unsupported, "{}: {}", device.name(), why);
        const MappedFile& mapping = model.file().shard(entry.tensors.front()->shard);
        source.release = [&mapping](const std::byte* data, uint64_t bytes) {
            mapping.not_needed(uint64_t(data - mapping.bytes().data()), bytes);
        };
        weights.set(entry.part, entry.layer, device.prepare(source));
    }
    check.finish(model.file().path());
    const std::vector<float> factors = rope_factors(model, context_tokens);
    weights.rope = place_rope(device, h.rope, factors, weights.frequencies);
    weights.rope_local = place_rope(device, h.rope_local, {}, weights.local_frequencies);
    report_progress(progress, "loading", total, total);
    return weights;
}

}  // namespace coterie
