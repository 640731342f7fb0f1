// A model file in, the same model in another mixture of types out. Streams: memory stays at a few tens of MiB
// whatever the size of the model. The output appears under its name only when it is whole.
#pragma once
#include <cstdint>
#include <string>

#include "base/progress.h"
#include "quant/recipe.h"

namespace coterie::convert {

struct QuantizeOptions {
    quant::Recipe recipe = quant::Recipe::Q4_K_M;
    int threads = 0;  // 0: all usable cores
    // Quantising what was already quantised below 8 bits adds a second loss to the first, so it is refused
    // unless asked for.
    bool allow_requantise = false;
};

struct QuantizeSummary {
    uint64_t tensors = 0;
    uint64_t tensors_changed = 0;                // written in another type
    uint64_t bytes_before = 0, bytes_after = 0;  // of tensor data
};

// Keeps all metadata but general.file_type and general.quantization_version, and joins a split set into one
// file. Progress is in bytes of input. Throws what gguf::File::open throws; bad_model naming a tensor with
// NaN or infinite values; invalid_argument when the recipe would quantise low-bit tensors again; unsupported
// for types it can't read.
QuantizeSummary quantize(const std::string& in_path, const std::string& out_path,
                         const QuantizeOptions& options = {}, const ProgressCallback& progress = {});

}  // namespace coterie::convert
