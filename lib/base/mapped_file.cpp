#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/failure.h"

namespace coterie {

MappedFile::MappedFile(const std::string& path) : path_(path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) fail(Status::not_found, "cannot open '{}': {}", path, std::strerror(errno));
    struct stat info {};
    if (::fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
        ::close(file);
        fail(Status::bad_model, "'{}' is not a regular file", path);
    }
    if (info.st_size == 0) {
        ::close(file);
        fail(Status::bad_model, "'{}' is empty (0 bytes)", path);
    }
    void* address = ::mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_SHARED, file, 0);
    const int error = errno;
    ::close(file);
    if (address == MAP_FAILED)
        fail(Status::out_of_memory, "cannot map '{}' ({} bytes): {}", path, info.st_size,
             std::strerror(error));
    data_ = static_cast<const std::byte*>(address);
    size_ = uint64_t(info.st_size);
}

MappedFile::~MappedFile() {
    if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(path_, other.path_);
    return *this;
}

static void advise(const std::byte* data, uint64_t size, uint64_t offset, uint64_t length, int advice) {
    if (offset >= size) return;
    length = std::min(length, size - offset);
    const uint64_t page = uint64_t(::sysconf(_SC_PAGESIZE));
    uint64_t begin = offset, end = offset + length;
    if (advice == MADV_DONTNEED) {  // whole pages inside the range only: the neighbours may be in use
        begin = (begin + page - 1) / page * page;
        end = end / page * page;
    } else {
        begin = begin / page * page;
    }
    if (end > begin) ::madvise(const_cast<std::byte*>(data) + begin, end - begin, advice);
}

void MappedFile::will_need(uint64_t offset, uint64_t length) const {
    advise(data_, size_, offset, length, MADV_WILLNEED);
}
void MappedFile::not_needed(uint64_t offset, uint64_t length) const {
    advise(data_, size_, offset, length, MADV_DONTNEED);
}

}  // namespace coterie
