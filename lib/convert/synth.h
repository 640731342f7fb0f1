// Model files of random weights with the dimensions, types and size of real ones: for measuring speed and
// memory without downloading anything, and for plans of machines that aren't there. Written as a stream at
// about the disk's speed: rows are drawn from a pool of encoded random blocks of plausible statistics. The
// same seed gives the same file.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/progress.h"
#include "convert/model_shape.h"

namespace coterie::convert {

struct SynthOptions {
    std::optional<quant::Recipe> recipe = std::nullopt;  // default: the shape's
    uint64_t seed = 1;
    // Only metadata and the tensor table: a sparse file of the true size whose weights read as zeros.
    bool header_only = false;
};

// Returns the size of the tensor data in bytes. Throws invalid_argument or unsupported for an impossible
// shape.
uint64_t synth(const ModelShape& shape, const std::string& out_path, const SynthOptions& options = {},
               const ProgressCallback& progress = {});

}  // namespace coterie::convert
