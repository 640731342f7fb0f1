// A whole file mapped read-only. A file that shrinks while mapped is the one fault this can't turn into a
// Failure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace coterie {

class MappedFile {
  public:
    MappedFile() = default;
    // Throws not_found (with the system's reason) or bad_model for an empty file, a folder or a device.
    explicit MappedFile(const std::string& path);
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;

    std::span<const std::byte> bytes() const { return {data_, size_}; }
    uint64_t size() const { return size_; }
    const std::string& path() const { return path_; }

    // Hints for a range of the mapping; harmless where the system refuses.
    void will_need(uint64_t offset, uint64_t length) const;
    void not_needed(uint64_t offset, uint64_t length) const;  // drops the pages from this process

  private:
    const std::byte* data_ = nullptr;
    uint64_t size_ = 0;
    std::string path_;
};

}  // namespace coterie
