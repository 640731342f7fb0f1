#include "gguf/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/failure.h"

namespace coterie::gguf {
namespace {

template <typename T>
void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& out, std::string_view text) {
    put(out, uint64_t(text.size()));
    out += text;
}

template <typename Texts>
std::string encode_texts(const Texts& texts) {
    std::string bytes;
    put(bytes, uint32_t(ValueType::string));
    put(bytes, uint64_t(texts.size()));
    for (const auto& text : texts) put_text(bytes, text);
    return bytes;
}

uint64_t align(uint64_t value, uint64_t alignment) {
    return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

Writer::Writer(std::string path, bool sparse)
    : path_(std::move(path)), temporary_(path_ + ".tmp"), sparse_(sparse) {}

Writer::~Writer() {
    if (!finished_) discard();
}

void Writer::discard() {
    if (file_ < 0) return;
    ::close(file_);
    file_ = -1;
    ::unlink(temporary_.c_str());
}

void Writer::give_up(const char* what) {
    const int error = errno;
    const bool opened = file_ >= 0;
    discard();
    const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
    const Status status = full              ? Status::out_of_memory
                          : error == ENOENT ? Status::not_found
                                            : Status::invalid_argument;
    fail(status, "cannot {} '{}': {}{}", what, temporary_, std::strerror(error),
         !opened ? std::string()
                 : fmt::format(" after {} of {} bytes; the unfinished file was removed{}", position_,
                               data_offset_ + data_bytes(), full ? ", make room and try again" : ""));
}

void Writer::set(std::string_view key, std::string_view text) {
    std::string bytes;
    put_text(bytes, text);
    set_encoded(key, ValueType::string, std::move(bytes));
}
void Writer::set(std::string_view key, const std::vector<std::string>& texts) {
    set_encoded(key, ValueType::array, encode_texts(texts));
}
void Writer::set(std::string_view key, const std::vector<std::string_view>& texts) {
    set_encoded(key, ValueType::array, encode_texts(texts));
}
void Writer::set(std::string_view key, const Value& value) {
    const std::span<const std::byte> bytes = value.bytes();
    set_encoded(key, value.type(), std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void Writer::set_array(std::string_view key, ValueType type, uint64_t count, const void* data, size_t size) {
    std::string bytes;
    put(bytes, uint32_t(type));
    put(bytes, count);
    bytes.append(static_cast<const char*>(data), size);
    set_encoded(key, ValueType::array, std::move(bytes));
}

void Writer::set_encoded(std::string_view key, ValueType type, std::string bytes) {
    COTERIE_CHECK(file_ < 0 && !finished_);
    if (key.empty() || key.size() > 65535)
        fail(Status::invalid_argument, "a metadata key has {} bytes, but 1 to 65535 are valid", key.size());
    const auto at =
        std::find_if(items_.begin(), items_.end(), [&](const Item& item) { return item.key == key; });
    if (at == items_.end())
        items_.push_back({std::string(key), type, std::move(bytes)});
    else
        *at = {std::string(key), type, std::move(bytes)};
}

void Writer::remove(std::string_view key) {
    std::erase_if(items_, [&](const Item& item) { return item.key == key; });
}

void Writer::copy_metadata(const File& file, const std::function<bool(std::string_view key)>& keep) {
    for (const Entry& entry : file.metadata())
        if (!entry.key.starts_with("split.") && (!keep || keep(entry.key))) set(entry.key, entry.value);
}

void Writer::add_tensor(std::string_view name, Type type, std::span<const uint64_t> shape) {
    COTERIE_CHECK(file_ < 0 && !finished_);
    Tensor tensor;
    tensor.name = name;
    tensor.type = type;
    const TypeTraits& format = traits(type);
    if (name.empty() || name.size() > 255 || shape.size() > 4)
        fail(Status::invalid_argument,
             "tensor '{}' has a name of {} bytes and {} dimensions; 1 to 255 and 0 to 4 are valid", name,
             name.size(), shape.size());
    tensor.dimensions = int(shape.size());
    uint64_t elements = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
        tensor.shape[d] = shape[d];
        if (shape[d] == 0 || __builtin_mul_overflow(elements, shape[d], &elements) ||
            elements > uint64_t(INT64_MAX))
            fail(Status::invalid_argument, "tensor '{}' has an impossible shape {}", name,
                 shape_text(tensor));
    }
    if (tensor.shape[0] % uint64_t(format.block_elements) != 0)
        fail(Status::invalid_argument,
             "tensor '{}' has rows of {} elements, which {} cannot hold: it has blocks of {}", name,
             tensor.shape[0], format.name, format.block_elements);
    if (__builtin_mul_overflow(elements / uint64_t(format.block_elements), uint64_t(format.block_bytes),
                               &tensor.bytes))
        fail(Status::invalid_argument, "tensor '{}' has an impossible size", name);
    tensors_.push_back(std::move(tensor));
}

uint64_t Writer::data_bytes() const {
    uint64_t total = 0;
    for (const Tensor& tensor : tensors_) total += align(tensor.bytes, alignment_);
    return total;
}

void Writer::write_header() {
    for (const Item& item : items_) {
        if (item.key != "general.alignment") continue;
        const Value value(item.type, std::as_bytes(std::span(item.bytes)));
        alignment_ = value.as_uint().value_or(0);
        if (alignment_ < 8 || alignment_ > (uint64_t(1) << 30) || (alignment_ & (alignment_ - 1)) != 0)
            fail(Status::invalid_argument,
                 "general.alignment is {}, but a power of two from 8 to 2^30 is expected", alignment_);
    }
    std::vector<std::string_view> names;
    for (const Tensor& tensor : tensors_) names.push_back(tensor.name);
    std::sort(names.begin(), names.end());
    if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
        fail(Status::invalid_argument, "tensor '{}' was added twice", *twice);

    std::string header = "GGUF";
    put(header, uint32_t(3));
    put(header, uint64_t(tensors_.size()));
    put(header, uint64_t(items_.size()));
    for (const Item& item : items_) {
        put_text(header, item.key);
        put(header, uint32_t(item.type));
        header += item.bytes;
    }
    uint64_t offset = 0;
    for (Tensor& tensor : tensors_) {
        tensor.offset = offset;
        offset += align(tensor.bytes, alignment_);
        put_text(header, tensor.name);
        put(header, uint32_t(tensor.dimensions));
        for (int d = 0; d < tensor.dimensions; ++d) put(header, tensor.shape[size_t(d)]);
        put(header, uint32_t(tensor.type));
        put(header, tensor.offset);
    }
    header.resize(align(header.size(), alignment_));
    data_offset_ = header.size();

    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file_ < 0) give_up("create");
    write(header.data(), header.size());
}

void Writer::write(const void* data, uint64_t bytes) {
    const char* at = static_cast<const char*>(data);
    while (bytes != 0) {
        // Linux writes at most 2 GiB in a call.
        const ssize_t written = ::write(file_, at, size_t(std::min<uint64_t>(bytes, uint64_t(1) << 30)));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) give_up("write");
        at += written;
        bytes -= uint64_t(written);
        position_ += uint64_t(written);
    }
}

void Writer::append(std::span<const std::byte> bytes) {
    COTERIE_CHECK(!sparse_ && !finished_);
    if (file_ < 0) {
        COTERIE_CHECK(position_ == 0);  // a writer that failed once stays failed
        write_header();
    }
    while (!bytes.empty()) {
        if (current_ == tensors_.size())
            fail(Status::invalid_argument, "'{}': {} bytes too many were appended after the last tensor",
                 path_, bytes.size());
        const Tensor& tensor = tensors_[current_];
        const uint64_t taken = std::min<uint64_t>(bytes.size(), tensor.bytes - current_written_);
        write(bytes.data(), taken);
        bytes = bytes.subspan(taken);
        current_written_ += taken;
        if (current_written_ != tensor.bytes) continue;
        const std::string padding(align(tensor.bytes, alignment_) - tensor.bytes, '\0');
        write(padding.data(), padding.size());
        ++current_;
        current_written_ = 0;
    }
}

void Writer::finish() {
    COTERIE_CHECK(!finished_);
    if (file_ < 0) {
        COTERIE_CHECK(position_ == 0);
        write_header();
    }
    if (!sparse_ && current_ != tensors_.size()) {
        const Tensor& tensor = tensors_[current_];
        fail(Status::invalid_argument, "'{}' cannot be finished: tensor '{}' has {} of {} bytes", path_,
             tensor.name, current_written_, tensor.bytes);
    }
    if (sparse_ && ::ftruncate(file_, off_t(data_offset_ + data_bytes())) != 0) give_up("set the size of");
    // On the disk before it gets its name, so that a crash leaves no half file under it.
    if (::fsync(file_) != 0 && errno != EINVAL && errno != EROFS) give_up("write");
    const int file = file_;
    if (::close(file) != 0) {
        ::unlink(temporary_.c_str());
        file_ = -1;
        give_up("close");
    }
    file_ = -1;
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
        const int error = errno;
        ::unlink(temporary_.c_str());
        fail(Status::invalid_argument, "cannot rename '{}' to '{}': {}", temporary_, path_,
             std::strerror(error));
    }
    finished_ = true;
}

}  // namespace coterie::gguf
