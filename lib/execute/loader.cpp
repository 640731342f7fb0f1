#include "execute/loader.h"

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
    for (const TensorEntry& entry : model.table().entries())
        if (holds(entry, share)) total += entry.tensors.front()->bytes * entry.tensors.size();
    for (const TensorEntry& entry : model.table().entries()) {
        if (!holds(entry, share)) continue;
        report_progress(progress, "loading", done, total);
        done += entry.tensors.front()->bytes * entry.tensors.size();
        WeightSource source = shard_source(entry, h, share);
        if (source.in() == 0 || source.out() == 0 || source.experts() == 0) continue;
        if (entry.kind == Kind::vector || entry.kind == Kind::taps) {
            weights.set(entry.part, entry.layer, upload(device, decode_numbers(source)));
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
    const std::vector<float> factors = rope_factors(model, context_tokens);
    weights.rope = place_rope(device, h.rope, factors, weights.frequencies);
    weights.rope_local = place_rope(device, h.rope_local, {}, weights.local_frequencies);
    report_progress(progress, "loading", total, total);
    return weights;
}

}  // namespace coterie
