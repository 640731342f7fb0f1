#include "gguf/header.h"

#include <algorithm>
#include <cstring>

#include "base/failure.h"

namespace coterie::gguf {
namespace {

constexpr uint64_t longest_key = 65535;
constexpr uint64_t longest_tensor_name = 255;
constexpr uint64_t default_alignment = 32;
// The least a metadata entry (key length, one letter, type, one byte) and a tensor (name length, one letter,
// dimension count, type, offset) take in the file: what bounds their counts.
constexpr uint64_t least_entry_bytes = 8 + 1 + 4 + 1;
constexpr uint64_t least_tensor_bytes = 8 + 1 + 4 + 4 + 8;

class Cursor {
  public:
    Cursor(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

    uint64_t offset() const { return offset_; }
    std::span<const std::byte> rest() const { return bytes_.subspan(offset_); }

    std::span<const std::byte> take(uint64_t length, std::string_view what) {
        if (length > bytes_.size() - offset_)
            fail(Status::bad_model,
                 "'{}' is cut short or damaged: {} needs {} bytes at byte {}, but the file has only {} "
                 "bytes; fetch it again",
                 path_, what, length, offset_, bytes_.size());
        const std::span<const std::byte> taken = bytes_.subspan(offset_, length);
        offset_ += length;
        return taken;
    }
    template <typename T>
    T number(std::string_view what) {
        T value{};
        std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
        return value;
    }
    std::string_view text(uint64_t longest, std::string_view what) {
        const uint64_t at = offset_;
        const uint64_t length = number<uint64_t>(what);
        if (length == 0 || length > longest)
            fail(Status::bad_model,
                 "'{}' is damaged: {} at byte {} has a length of {} (1 to {} are valid); fetch it again",
                 path_, what, at, length, longest);
        const std::span<const std::byte> taken = take(length, what);
        return {reinterpret_cast<const char*>(taken.data()), taken.size()};
    }

  private:
    std::span<const std::byte> bytes_;
    const std::string& path_;
    uint64_t offset_ = 0;
};

void check_magic(std::span<const std::byte> bytes, const std::string& path) {
    const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                                 std::min<size_t>(bytes.size(), 64));
    if (start.substr(0, 4) == "GGUF") return;
    std::string shown;
    for (const char c : start.substr(0, 4)) {
        if (c >= ' ' && c <= '~')
            shown += c;
        else
            shown += fmt::format("\\x{:02x}", uint8_t(c));
    }
    const char* hint = "";
    if (start.starts_with("version https://git-lfs"))
        hint = "; it is a Git LFS pointer, the file itself was not fetched";
    else if (start.starts_with("<"))
        hint = "; it looks like a web page saved in place of the file";
    else if (start.starts_with("FUGG"))
        hint = "; it is a big-endian file";
    fail(Status::bad_model, "'{}' is not a GGUF file: it starts with '{}' and not with 'GGUF'{}", path, shown,
         hint);
}

void check_version(uint32_t version, const std::string& path) {
    if (version == 2 || version == 3) return;
    if ((version & 0xffff) == 0 && version != 0)
        fail(Status::unsupported,
             "'{}' is a big-endian GGUF file; only little-endian files are read: convert it again without "
             "the big-endian option",
             path);
    if (version == 1)
        fail(Status::unsupported,
             "'{}' is a GGUF file of version 1, which is no longer in use: convert the model again (versions "
             "2 and 3 are read)",
             path);
    fail(Status::unsupported, "'{}' is a GGUF file of version {}, but this build reads versions 2 and 3",
         path, version);
}

// The first repeated name in a list, or null. Sorting, not hashing: no input makes it slow.
const std::string_view* repeated(std::vector<std::string_view>& names) {
    std::sort(names.begin(), names.end());
    const auto found = std::adjacent_find(names.begin(), names.end());
    return found == names.end() ? nullptr : &*found;
}

std::vector<Entry> read_metadata(Cursor& cursor, uint64_t count, const std::string& path) {
    if (count > cursor.rest().size() / least_entry_bytes)
        fail(Status::bad_model,
             "'{}' is cut short or damaged: it says it has {} metadata entries, but only {} bytes follow; "
             "fetch it again",
             path, count, cursor.rest().size());
    std::vector<Entry> entries;
    std::vector<std::string_view> keys;
    entries.reserve(count);
    keys.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
        const std::string_view key =
            cursor.text(longest_key, fmt::format("the key of metadata entry {} of {}", i + 1, count));
        const std::string where = fmt::format("'{}': metadata '{}'", path, key.substr(0, 200));
        const uint32_t type = cursor.number<uint32_t>(where);
        if (!is_value_type(type))
            fail(Status::bad_model,
                 "{} has the unknown type {} (0 to 12 are valid): the file is damaged, fetch it again", where,
                 type);
        const uint64_t length = encoded_bytes(ValueType(type), cursor.rest(), where);
        entries.push_back({key, Value(ValueType(type), cursor.take(length, where))});
        keys.push_back(key);
    }
    if (const std::string_view* twice = repeated(keys))
        fail(Status::bad_model, "'{}' is damaged: metadata '{}' is there twice", path, twice->substr(0, 200));
    return entries;
}

uint64_t read_alignment(const std::vector<Entry>& metadata, const std::string& path) {
    for (const Entry& entry : metadata) {
        if (entry.key != "general.alignment") continue;
        const std::optional<uint64_t> alignment = entry.value.as_uint();
        // At least 8: every element type can then be read in place.
        if (!alignment || *alignment < 8 || *alignment > (uint64_t(1) << 30) ||
            (*alignment & (*alignment - 1)) != 0)
            fail(Status::bad_model,
                 "'{}' is damaged: general.alignment is {}, but a power of two from 8 to 2^30 is expected",
                 path, alignment ? fmt::format("{}", *alignment) : "not an unsigned integer");
        return *alignment;
    }
    return default_alignment;
}

void read_shape(Cursor& cursor, Tensor& tensor, const std::string& where) {
    const uint32_t dimensions = cursor.number<uint32_t>(where);
    if (dimensions > 4)
        fail(Status::bad_model, "{} has {} dimensions, but at most 4 are valid: the file is damaged", where,
             dimensions);
    tensor.dimensions = int(dimensions);
    uint64_t elements = 1;
    for (uint32_t d = 0; d < dimensions; ++d) {
        tensor.shape[d] = cursor.number<uint64_t>(where);
        if (tensor.shape[d] == 0 || __builtin_mul_overflow(elements, tensor.shape[d], &elements) ||
            elements > uint64_t(INT64_MAX))
            fail(Status::bad_model, "{} has an impossible shape {}: the file is damaged", where,
                 shape_text(tensor));
    }
}

Tensor read_tensor(Cursor& cursor, uint64_t index, uint64_t count, const std::string& path) {
    Tensor tensor;
    tensor.name =
        cursor.text(longest_tensor_name, fmt::format("the name of tensor {} of {}", index + 1, count));
    const std::string where = fmt::format("'{}': tensor '{}'", path, tensor.name);
    read_shape(cursor, tensor, where);
    const uint32_t number = cursor.number<uint32_t>(where);
    const TypeTraits* traits = find_type(number);
    if (number == 4)  // Q4_2 until 2023; later early versions of Ollama took the number for MXFP4
        fail(Status::unsupported,
             "{} has the type number 4, which was removed from the format; early versions of Ollama stored "
             "MXFP4 under it: fetch another GGUF file of this model",
             where);
    if (!traits)
        fail(Status::unsupported,
             "{} has the type number {}, which this build does not know: the file is damaged or newer than "
             "this build",
             where, number);
    tensor.type = traits->type;
    if (tensor.shape[0] % uint64_t(traits->block_elements) != 0)
        fail(Status::bad_model,
             "{} has rows of {} elements, which is not a multiple of the {} elements of a {} block", where,
             tensor.shape[0], traits->block_elements, traits->name);
    if (__builtin_mul_overflow(tensor.elements() / uint64_t(traits->block_elements),
                               uint64_t(traits->block_bytes), &tensor.bytes))
        fail(Status::bad_model, "{} has an impossible size: shape {} of {}", where, shape_text(tensor),
             traits->name);
    tensor.offset = cursor.number<uint64_t>(where);  // relative to the data, until place_tensors
    return tensor;
}

void place_tensors(Header& header, std::span<const std::byte> bytes, const std::string& path, int shard) {
    std::vector<Tensor*> order;
    order.reserve(header.tensors.size());
    uint64_t expected = 0;  // file size that holds every tensor
    for (Tensor& tensor : header.tensors) {
        uint64_t end = 0;
        if (tensor.offset % header.alignment != 0 ||
            __builtin_add_overflow(tensor.offset, header.data_offset, &tensor.offset) ||
            __builtin_add_overflow(tensor.offset, tensor.bytes, &end))
            fail(Status::bad_model,
                 "'{}': tensor '{}' lies at an impossible place (not a multiple of the alignment {}, or past "
                 "2^64): the file is damaged",
                 path, tensor.name, header.alignment);
        expected = std::max(expected, end);
        order.push_back(&tensor);
    }
    std::sort(order.begin(), order.end(),
              [](const Tensor* a, const Tensor* b) { return a->offset < b->offset; });
    for (size_t i = 1; i < order.size(); ++i)
        if (order[i - 1]->offset + order[i - 1]->bytes > order[i]->offset)
            fail(Status::bad_model, "'{}' is damaged: the tensors '{}' and '{}' overlap at byte {}", path,
                 order[i - 1]->name, order[i]->name, order[i]->offset);
    if (expected > bytes.size()) {
        // order is by offset and free of overlaps, so the first that ends too late is the first that is cut.
        const auto cut = std::find_if(order.begin(), order.end(),
                                      [&](const Tensor* t) { return t->offset + t->bytes > bytes.size(); });
        fail(Status::bad_model,
             "'{}' is cut short: expected {} bytes, found {} ({} are missing); the first tensor that is cut "
             "is '{}' at bytes {} to {}; fetch the file again",
             path, expected, bytes.size(), expected - bytes.size(), (*cut)->name, (*cut)->offset,
             (*cut)->offset + (*cut)->bytes);
    }
    for (Tensor& tensor : header.tensors) {
        tensor.shard = shard;
        tensor.data = bytes.data() + tensor.offset;
    }
}

}  // namespace

std::string shape_text(const Tensor& tensor) {
    std::string text = "[";
    for (int d = 0; d < tensor.dimensions; ++d)
        text += fmt::format("{}{}", d ? ", " : "", tensor.shape[size_t(d)]);
    return text + "]";
}

Header read_header(std::span<const std::byte> bytes, const std::string& path, int shard) {
    check_magic(bytes, path);
    Cursor cursor(bytes, path);
    cursor.take(4, "the magic number");
    Header header;
    header.version = cursor.number<uint32_t>("the version");
    check_version(header.version, path);
    const uint64_t tensors = cursor.number<uint64_t>("the number of tensors");
    const uint64_t entries = cursor.number<uint64_t>("the number of metadata entries");
    if (tensors > cursor.rest().size() / least_tensor_bytes)
        fail(Status::bad_model,
             "'{}' is cut short or damaged: it says it has {} tensors, but only {} bytes follow; fetch it "
             "again",
             path, tensors, cursor.rest().size());
    header.metadata = read_metadata(cursor, entries, path);
    header.alignment = read_alignment(header.metadata, path);
    if (tensors > cursor.rest().size() / least_tensor_bytes)
        fail(Status::bad_model,
             "'{}' is cut short or damaged: it says it has {} tensors, but only {} bytes follow the "
             "metadata; fetch it again",
             path, tensors, cursor.rest().size());
    header.tensors.reserve(tensors);
    for (uint64_t i = 0; i < tensors; ++i) header.tensors.push_back(read_tensor(cursor, i, tensors, path));
    std::vector<std::string_view> names(header.tensors.size());
    std::transform(header.tensors.begin(), header.tensors.end(), names.begin(),
                   [](const Tensor& t) { return std::string_view(t.name); });
    if (const std::string_view* twice = repeated(names))
        fail(Status::bad_model, "'{}' is damaged: tensor '{}' is there twice", path, *twice);
    header.data_offset = (cursor.offset() + header.alignment - 1) / header.alignment * header.alignment;
    place_tensors(header, bytes, path, shard);
    return header;
}

}  // namespace coterie::gguf
