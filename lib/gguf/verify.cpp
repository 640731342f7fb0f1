#include "gguf/verify.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "base/failure.h"
#include "base/json.h"
#include "base/threads.h"
#include "gguf/inspect.h"
#include "quant/scan.h"

namespace coterie::gguf {
namespace {

constexpr uint64_t piece_bytes = uint64_t(4) << 20;
constexpr int64_t none = std::numeric_limits<int64_t>::max();

struct Piece {
    size_t tensor;
    int64_t begin, end;  // blocks
};

struct Finding {
    std::atomic<int64_t> first_bad{none};
    std::atomic<bool> zero{true};
};

std::vector<Piece> cut(const File& file) {
    std::vector<Piece> pieces;
    for (size_t i = 0; i < file.tensors().size(); ++i) {
        const Tensor& tensor = file.tensors()[i];
        const int64_t block_bytes = traits(tensor.type).block_bytes;
        const int64_t blocks = int64_t(tensor.bytes) / block_bytes;
        const int64_t step = std::max<int64_t>(1, int64_t(piece_bytes) / block_bytes);
        for (int64_t begin = 0; begin < blocks; begin += step)
            pieces.push_back({i, begin, std::min(blocks, begin + step)});
    }
    return pieces;
}

bool all_zero(std::span<const std::byte> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte(0); });
}

// Reads a piece and drops its pages again, so that the memory used does not grow with the file.
void scan(const File& file, const Piece& piece, Finding& finding) {
    const Tensor& tensor = file.tensors()[piece.tensor];
    const uint64_t block_bytes = uint64_t(traits(tensor.type).block_bytes);
    const uint64_t offset = uint64_t(piece.begin) * block_bytes;
    const std::span<const std::byte> bytes =
        tensor.contents().subspan(offset, uint64_t(piece.end - piece.begin) * block_bytes);
    const int64_t bad = quant::first_bad_block(tensor.type, bytes.data(), piece.end - piece.begin);
    if (bad >= 0) {
        int64_t seen = finding.first_bad.load();
        while (piece.begin + bad < seen &&
               !finding.first_bad.compare_exchange_weak(seen, piece.begin + bad)) {
        }
    }
    if (finding.zero.load() && !all_zero(bytes)) finding.zero.store(false);
    file.shard(tensor.shard).not_needed(tensor.offset + offset, bytes.size());
}

}  // namespace

Verification verify(const File& file, int threads, const ProgressCallback& progress) {
    const std::vector<Piece> pieces = cut(file);
    std::vector<Finding> findings(file.tensors().size());
    Verification result;
    result.tensors = file.tensors().size();
    for (const Tensor& tensor : file.tensors()) {
        result.bytes += tensor.bytes;
        result.blocks += tensor.bytes / uint64_t(traits(tensor.type).block_bytes);
    }

    std::atomic<size_t> next{0};
    std::atomic<uint64_t> done{0};
    std::atomic<bool> stop{false};
    ThreadTeam team(threads);
    team.run([&](int member) {
        try {
            for (size_t i = next++; i < pieces.size() && !stop; i = next++) {
                scan(file, pieces[i], findings[pieces[i].tensor]);
                const uint64_t block_bytes =
                    uint64_t(traits(file.tensors()[pieces[i].tensor].type).block_bytes);
                done += uint64_t(pieces[i].end - pieces[i].begin) * block_bytes;
                if (member == 0) report_progress(progress, "verifying", done, result.bytes);
            }
        } catch (...) {
            stop = true;
            throw;
        }
    });
    report_progress(progress, "verifying", result.bytes, result.bytes);

    for (size_t i = 0; i < findings.size(); ++i) {
        const Tensor& tensor = file.tensors()[i];
        const TypeTraits& format = traits(tensor.type);
        if (const int64_t block = findings[i].first_bad; block != none) {
            const int64_t blocks_in_row = int64_t(tensor.shape[0]) / format.block_elements;
            result.bad.push_back({tensor.name, tensor.type, block, block / blocks_in_row,
                                  tensor.offset + uint64_t(block) * uint64_t(format.block_bytes),
                                  tensor.shard});
        } else if (findings[i].zero) {
            result.zero.push_back(tensor.name);
        }
    }
    return result;
}

std::string verification_text(const File& file, const Verification& result) {
    std::string out =
        fmt::format("structure: ok ({} tensors, {} file{}, nothing cut short, nothing overlaps)\n",
                    result.tensors, file.shards().size(), file.shards().size() == 1 ? "" : "s");
    out += fmt::format("weights: {} blocks, {} bytes read; {} tensor{} with a scale that is not finite\n",
                       result.blocks, result.bytes, result.bad.size(), result.bad.size() == 1 ? "" : "s");
    for (const BadTensor& bad : result.bad)
        out += fmt::format("  bad: '{}' ({}), block {} in row {}, byte {} of '{}'\n", printable(bad.name),
                           type_name(bad.type), bad.block, bad.row, bad.offset,
                           printable(file.shard(bad.shard).path()));
    for (const std::string& name : result.zero)
        out += fmt::format("  warning: '{}' is all zeros\n", printable(name));
    out += result.ok() ? "the file is good as far as can be seen without its checksum\n"
                       : "the file is damaged: fetch it again\n";
    return out;
}

std::string verification_json(const File& file, const Verification& result) {
    Json root = {{"path", file.path()},     {"ok", result.ok()},     {"tensors", result.tensors},
                 {"blocks", result.blocks}, {"bytes", result.bytes}, {"bad", Json::array()},
                 {"zero", result.zero}};
    for (const BadTensor& bad : result.bad)
        root["bad"].push_back({{"name", bad.name},
                               {"type", type_name(bad.type)},
                               {"block", bad.block},
                               {"row", bad.row},
                               {"offset", bad.offset},
                               {"file", file.shard(bad.shard).path()}});
    return root.dump(2);
}

}  // namespace coterie::gguf
