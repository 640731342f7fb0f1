// Looks for damage in a file that opened well: reads every block of every tensor and reports those whose
// scales are not finite. Bits that changed inside a block's integers can't be seen: only a checksum of the
// whole file shows them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "gguf/file.h"

namespace coterie::gguf {

struct BadTensor {
    std::string name;
    Type type = Type::F32;
    int64_t block = 0;    // the first bad one
    int64_t row = 0;      // the row it lies in
    uint64_t offset = 0;  // of the block in its file
    int shard = 0;
};

struct Verification {
    uint64_t tensors = 0, blocks = 0, bytes = 0;  // scanned
    std::vector<BadTensor> bad;                   // in file order
    std::vector<std::string> zero;                // tensors of nothing but zeros: legal, and rarely meant
    bool ok() const { return bad.empty(); }
};

// threads <= 0: all usable cores. Progress counts bytes, as "verifying"; it is called on the calling thread.
Verification verify(const File& file, int threads = 0, const ProgressCallback& progress = {});

std::string verification_text(const File& file, const Verification& result);
std::string verification_json(const File& file, const Verification& result);

}  // namespace coterie::gguf
