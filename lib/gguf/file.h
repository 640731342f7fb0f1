// A GGUF model file, or the whole set when it was split into several: metadata and a directory of tensors
// whose bytes lie in the mapped files. Opening reads the headers only; weights are paged in when somebody
// touches them. Everything was checked against the real file sizes. Views handed out live as long as the File
// (moving keeps them).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/progress.h"
#include "gguf/header.h"
#include "gguf/value.h"

namespace coterie::gguf {

class File {
  public:
    // path: a single file, or any shard of a set named NAME-00001-of-000NN.gguf. Throws not_found (a missing
    // file or shard, named), bad_model (damaged, cut short, contradictory) or unsupported (version, byte
    // order, tensor type).
    static File open(const std::string& path, const ProgressCallback& progress = {});

    File(File&&) noexcept = default;
    File& operator=(File&&) noexcept = default;

    const std::string& path() const { return shards_.front().path(); }
    uint32_t version() const { return version_; }
    uint64_t alignment() const { return alignment_; }
    uint64_t total_bytes() const;  // of all shard files

    // Metadata: that of the first shard, in file order.
    std::span<const Entry> metadata() const { return metadata_; }
    const Value* find(std::string_view key) const;
    // Empty when the key is absent; bad_model, with key, type and value, when it is there with another type.
    std::optional<uint64_t> get_uint(std::string_view key) const;  // any integer type
    std::optional<int64_t> get_int(std::string_view key) const;    // any integer type
    std::optional<double> get_float(std::string_view key) const;   // any number
    std::optional<bool> get_bool(std::string_view key) const;      // a boolean, or an integer 0 or 1
    std::optional<std::string_view> get_string(std::string_view key) const;
    std::optional<std::vector<std::string_view>> get_strings(
        std::string_view key) const;  // views into the mapping
    std::optional<std::vector<int64_t>> get_ints(std::string_view key) const;
    std::optional<std::vector<float>> get_floats(std::string_view key) const;
    std::optional<std::vector<bool>> get_bools(std::string_view key) const;

    // Tensors of all shards, in file order, shard after shard.
    std::span<const Tensor> tensors() const { return tensors_; }
    const Tensor* find_tensor(std::string_view name) const;

    // The mapped files, for hints about pages: shard(tensor.shard).will_need(tensor.offset, tensor.bytes).
    std::span<const MappedFile> shards() const { return shards_; }
    const MappedFile& shard(int index) const { return shards_[size_t(index)]; }

  private:
    File() = default;
    void append(MappedFile&& file, Header&& header);
    void index();
    void check_set(const Header& header, int shard, uint64_t shards) const;

    uint32_t version_ = 0;
    uint64_t alignment_ = 0;
    std::vector<MappedFile> shards_;
    std::vector<Entry> metadata_;
    std::vector<Tensor> tensors_;
    std::vector<uint32_t> by_key_;   // indices into metadata_, sorted by key
    std::vector<uint32_t> by_name_;  // indices into tensors_, sorted by name
};

// "NAME-00002-of-00005.gguf" is shard 1 of 5 of NAME.
struct ShardName {
    std::string stem;
    int shard = 0;
    int shards = 0;
    std::string path(int index) const;
};
std::optional<ShardName> parse_shard_name(const std::string& path);

}  // namespace coterie::gguf
