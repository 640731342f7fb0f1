#include "convert/quantize.h"

#include <algorithm>
#include <vector>

#include "base/failure.h"
#include "base/threads.h"
#include "convert/facts.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "quant/decode.h"
#include "quant/encode.h"
#include "quant/scan.h"

namespace coterie::convert {
namespace {

// Weights are converted in batches (one write each), and within a batch by each thread in pieces that stay in
// its cache. Both are multiples of every format's block.
constexpr int64_t batch_weights = int64_t(4) << 20;
constexpr int64_t piece_weights = 8192;

bool is_low_bit(Type type) {
    return traits(type).quantised && type != Type::Q8_0;
}

void check_tensor(const gguf::Tensor& tensor, Type target, const QuantizeOptions& options,
                  const std::string& path) {
    if (target == tensor.type) return;
    if (!quant::can_decode(tensor.type) || !quant::can_encode(target))
        fail(Status::unsupported, "'{}' of '{}' can't be converted from {} to {}", tensor.name, path,
             type_name(tensor.type), type_name(target));
    if (is_low_bit(tensor.type) && traits(target).quantised && !options.allow_requantise)
        fail(Status::invalid_argument,
             "'{}' of '{}' is already quantised as {}; quantising it again as {} would lose more than doing "
             "it once: start "
             "from an F16, BF16 or Q8_0 file, or allow requantisation",
             tensor.name, path, type_name(tensor.type), type_name(target));
}

class Converter {
  public:
    Converter(int threads, gguf::Writer& writer)
        : team_(threads), writer_(writer), floats_(size_t(team_.size())) {
        for (std::vector<float>& f : floats_) f.resize(size_t(piece_weights));
    }

    // Converts `n` weights at `in` and appends them.
    void run(Type from, Type to, const std::byte* in, int64_t n) {
        out_.resize(row_bytes(to, uint64_t(n)));
        team_.run([&](int member) {
            const Range mine = part_of(n, member, team_.size(), piece_weights);
            float* floats = floats_[size_t(member)].data();
            for (int64_t at = mine.begin; at < mine.end; at += piece_weights) {
                const int64_t count = std::min(piece_weights, mine.end - at);
                quant::decode(from, in + row_bytes(from, uint64_t(at)), floats, count);
                quant::encode(to, floats, out_.data() + row_bytes(to, uint64_t(at)), count);
            }
        });
        writer_.append(out_);
    }

  private:
    ThreadTeam team_;
    gguf::Writer& writer_;
    std::vector<std::vector<float>> floats_;
    std::vector<std::byte> out_;
};

}  // namespace

QuantizeSummary quantize(const std::string& in_path, const std::string& out_path,
                         const QuantizeOptions& options, const ProgressCallback& progress) {
    refuse_same_file(in_path, out_path);
    const gguf::File file = gguf::File::open(in_path);
    std::vector<quant::RecipeTensor> tensors;
    for (const gguf::Tensor& t : file.tensors()) tensors.push_back(recipe_tensor(t));
    const std::vector<Type> types = quant::recipe_types(options.recipe, tensors, recipe_model(file));

    gguf::Writer writer(out_path);
    writer.copy_metadata(file);
    writer.set("general.file_type", quant::file_type(options.recipe));
    writer.set("general.quantization_version", uint32_t(2));
    QuantizeSummary summary;
    for (size_t i = 0; i < types.size(); ++i) {
        const gguf::Tensor& tensor = file.tensors()[i];
        check_tensor(tensor, types[i], options, in_path);
        writer.add_tensor(tensor.name, types[i], tensors[i].shape);
        ++summary.tensors;
        summary.tensors_changed += types[i] != tensor.type;
        summary.bytes_before += tensor.bytes;
        summary.bytes_after += row_bytes(types[i], tensor.elements());
    }

    Converter converter(options.threads, writer);
    uint64_t done = 0;
    for (size_t i = 0; i < types.size(); ++i) {
        const gguf::Tensor& tensor = file.tensors()[i];
        const MappedFile& shard = file.shard(tensor.shard);
        const int64_t n = int64_t(tensor.elements()), block = traits(tensor.type).block_elements;
        for (int64_t at = 0; at < n; at += batch_weights) {
            report_progress(progress, "quantizing", done, summary.bytes_before);
            const int64_t count = std::min(batch_weights, n - at);
            const uint64_t offset = row_bytes(tensor.type, uint64_t(at)),
                           bytes = row_bytes(tensor.type, uint64_t(count));
            const std::byte* in = tensor.data + offset;
            shard.will_need(tensor.offset + offset + bytes, std::min(bytes, tensor.bytes - offset - bytes));
            if (const int64_t bad = quant::first_bad_block(tensor.type, in, count / block); bad >= 0)
                fail(Status::bad_model,
                     "'{}' of '{}' has a value that isn't finite near weight {}; the file is damaged: fetch "
                     "it again",
                     tensor.name, in_path, at + bad * block);
            if (types[i] == tensor.type)
                writer.append({in, bytes});
            else
                converter.run(tensor.type, types[i], in, count);
            shard.not_needed(tensor.offset + offset, bytes);
            done += bytes;
        }
    }
    report_progress(progress, "quantizing", done, summary.bytes_before);
    writer.finish();
    return summary;
}

}  // namespace coterie::convert
