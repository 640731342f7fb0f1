#include "gguf/file.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/failure.h"

namespace coterie::gguf {
namespace {

constexpr int most_shards = 9999;

std::optional<uint64_t> header_uint(const Header& header, std::string_view key) {
    for (const Entry& entry : header.metadata)
        if (entry.key == key) return entry.value.as_uint();
    return std::nullopt;
}

[[noreturn]] void wrong_type(const std::string& path, std::string_view key, const Value& value,
                             std::string_view expected) {
    std::string found = value_type_name(value.type());
    if (value.is_array())
        found = fmt::format("array of {} {}", value.size(), value_type_name(value.element_type()));
    else if (const std::optional<int64_t> number = value.as_int())
        found += fmt::format(" {}", *number);
    else if (const std::optional<double> real = value.as_float())
        found += fmt::format(" {}", *real);
    fail(Status::bad_model, "'{}': metadata '{}' should be {} but is: {}", path, key, expected, found);
}

template <typename T, typename Convert>
std::optional<std::vector<T>> get_array(const File& file, std::string_view key, std::string_view expected,
                                        Convert&& convert) {
    const Value* value = file.find(key);
    if (!value) return std::nullopt;
    if (!value->is_array()) wrong_type(file.path(), key, *value, expected);
    std::vector<T> result;
    result.reserve(value->size());
    value->each([&](const Value& element) {
        const auto converted = convert(element);
        if (!converted) wrong_type(file.path(), key, *value, expected);
        result.push_back(T(*converted));
        return true;
    });
    return result;
}

}  // namespace

std::string ShardName::path(int index) const {
    return fmt::format("{}-{:05}-of-{:05}.gguf", stem, index + 1, shards);
}

std::optional<ShardName> parse_shard_name(const std::string& path) {
    constexpr std::string_view form = "-00001-of-00001.gguf";
    if (path.size() <= form.size()) return std::nullopt;
    const std::string_view tail = std::string_view(path).substr(path.size() - form.size());
    if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf") return std::nullopt;
    const auto number = [&](size_t at) {
        int value = 0;
        const char *begin = tail.data() + at, *end = begin + 5;
        return std::from_chars(begin, end, value).ptr == end ? value : -1;
    };
    const int shard = number(1), shards = number(10);
    if (shard < 1 || shards < 1 || shard > shards || shards > most_shards) return std::nullopt;
    return ShardName{path.substr(0, path.size() - form.size()), shard - 1, shards};
}

File File::open(const std::string& path, const ProgressCallback& progress) {
    File file;
    const std::optional<ShardName> name = parse_shard_name(path);
    MappedFile given(path);
    Header header = read_header(given.bytes(), path, name ? name->shard : 0);
    const std::optional<uint64_t> declared = header_uint(header, "split.count");
    const uint64_t shards = declared.value_or(name ? uint64_t(name->shards) : 1);
    if (shards <= 1) {
        for (Tensor& tensor : header.tensors) tensor.shard = 0;
        report_progress(progress, "reading", 1, 1);
        file.append(std::move(given), std::move(header));
        file.index();
        return file;
    }
    if (!name || uint64_t(name->shards) != shards)
        fail(Status::not_found,
             "'{}' is one of a set of {} files, which are found by their names: give them back names like "
             "NAME-00001-of-{:05}.gguf",
             path, shards, shards);
    for (int i = 0; i < name->shards; ++i) {
        report_progress(progress, "reading", uint64_t(i), shards);
        const std::string shard_path = name->path(i);
        try {
            MappedFile mapped(shard_path);
            Header other = read_header(mapped.bytes(), shard_path, i);
            file.check_set(other, i, shards);
            file.append(std::move(mapped), std::move(other));
        } catch (const Failure& failure) {
            if (failure.status() != Status::not_found) throw;
            fail(Status::not_found, "shard {} of {} is missing: {}; all {} files must lie in one folder",
                 i + 1, shards, failure.message(), shards);
        }
    }
    report_progress(progress, "reading", shards, shards);
    file.index();
    if (const auto total = file.get_uint("split.tensors.count"); total && *total != file.tensors_.size())
        fail(Status::bad_model,
             "the set of '{}' should have {} tensors but has {}: its files are not of one model", file.path(),
             *total, file.tensors_.size());
    return file;
}

void File::check_set(const Header& header, int shard, uint64_t shards) const {
    const uint64_t number = header_uint(header, "split.no").value_or(uint64_t(shard));
    const uint64_t count = header_uint(header, "split.count").value_or(shards);
    if (number != uint64_t(shard) || count != shards)
        fail(Status::bad_model,
             "the file named as shard {} of {} says inside that it is shard {} of {}: it was renamed or is "
             "another "
             "model's",
             shard + 1, shards, number + 1, count);
}

void File::append(MappedFile&& mapped, Header&& header) {
    if (shards_.empty()) {
        version_ = header.version;
        alignment_ = header.alignment;
        metadata_ = std::move(header.metadata);
    }
    shards_.push_back(std::move(mapped));
    tensors_.insert(tensors_.end(), std::make_move_iterator(header.tensors.begin()),
                    std::make_move_iterator(header.tensors.end()));
}

void File::index() {
    by_key_.resize(metadata_.size());
    std::iota(by_key_.begin(), by_key_.end(), 0u);
    std::sort(by_key_.begin(), by_key_.end(),
              [&](uint32_t a, uint32_t b) { return metadata_[a].key < metadata_[b].key; });
    by_name_.resize(tensors_.size());
    std::iota(by_name_.begin(), by_name_.end(), 0u);
    std::sort(by_name_.begin(), by_name_.end(),
              [&](uint32_t a, uint32_t b) { return tensors_[a].name < tensors_[b].name; });
    for (size_t i = 1; i < by_name_.size(); ++i)
        if (tensors_[by_name_[i - 1]].name == tensors_[by_name_[i]].name)
            fail(Status::bad_model, "the set of '{}' has tensor '{}' twice, in shards {} and {}", path(),
                 tensors_[by_name_[i]].name, tensors_[by_name_[i - 1]].shard + 1,
                 tensors_[by_name_[i]].shard + 1);
}

uint64_t File::total_bytes() const {
    uint64_t total = 0;
    for (const MappedFile& shard : shards_) total += shard.size();
    return total;
}

const Value* File::find(std::string_view key) const {
    const auto at =
        std::lower_bound(by_key_.begin(), by_key_.end(), key,
                         [&](uint32_t i, std::string_view wanted) { return metadata_[i].key < wanted; });
    return at != by_key_.end() && metadata_[*at].key == key ? &metadata_[*at].value : nullptr;
}

const Tensor* File::find_tensor(std::string_view name) const {
    const auto at =
        std::lower_bound(by_name_.begin(), by_name_.end(), name,
                         [&](uint32_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
    return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

std::optional<uint64_t> File::get_uint(std::string_view key) const {
    const Value* value = find(key);
    if (!value) return std::nullopt;
    const std::optional<uint64_t> number = value->as_uint();
    if (!number) wrong_type(path(), key, *value, "an unsigned integer");
    return number;
}

std::optional<int64_t> File::get_int(std::string_view key) const {
    const Value* value = find(key);
    if (!value) return std::nullopt;
    const std::optional<int64_t> number = value->as_int();
    if (!number) wrong_type(path(), key, *value, "an integer");
    return number;
}

std::optional<double> File::get_float(std::string_view key) const {
    const Value* value = find(key);
    if (!value) return std::nullopt;
    const std::optional<double> number = value->as_float();
    if (!number) wrong_type(path(), key, *value, "a number");
    return number;
}

std::optional<bool> File::get_bool(std::string_view key) const {
    const Value* value = find(key);
    if (!value) return std::nullopt;
    const std::optional<bool> flag = value->as_bool();
    if (!flag) wrong_type(path(), key, *value, "true or false");
    return flag;
}

std::optional<std::string_view> File::get_string(std::string_view key) const {
    const Value* value = find(key);
    if (!value) return std::nullopt;
    const std::optional<std::string_view> text = value->as_string();
    if (!text) wrong_type(path(), key, *value, "a text");
    return text;
}

std::optional<std::vector<std::string_view>> File::get_strings(std::string_view key) const {
    return get_array<std::string_view>(*this, key, "an array of texts",
                                       [](const Value& v) { return v.as_string(); });
}
std::optional<std::vector<int64_t>> File::get_ints(std::string_view key) const {
    return get_array<int64_t>(*this, key, "an array of integers", [](const Value& v) { return v.as_int(); });
}
std::optional<std::vector<float>> File::get_floats(std::string_view key) const {
    return get_array<float>(*this, key, "an array of numbers", [](const Value& v) { return v.as_float(); });
}
std::optional<std::vector<bool>> File::get_bools(std::string_view key) const {
    return get_array<bool>(*this, key, "an array of true and false",
                           [](const Value& v) { return v.as_bool(); });
}

}  // namespace coterie::gguf
