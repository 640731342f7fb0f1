#include "gguf/inspect.h"

#include <algorithm>
#include <cctype>

#include "base/failure.h"
#include "base/json.h"

namespace coterie::gguf {
namespace {

constexpr size_t shown_text_elements = 6;
constexpr size_t shown_json_elements = 32;
constexpr size_t shown_text_bytes = 72;

// Length of the valid UTF-8 character at the front of text, 0 if there is none.
size_t character_bytes(std::string_view text) {
    const auto byte = [&](size_t i) { return i < text.size() ? uint8_t(text[i]) : uint8_t(0); };
    const auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
    const uint8_t first = byte(0);
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf && follows(1)) return 2;
    if ((first & 0xf0) == 0xe0 && follows(1) && follows(2)) {
        const bool overlong = first == 0xe0 && byte(1) < 0xa0, surrogate = first == 0xed && byte(1) >= 0xa0;
        return overlong || surrogate ? 0 : 3;
    }
    if (first >= 0xf0 && first <= 0xf4 && follows(1) && follows(2) && follows(3)) {
        const bool overlong = first == 0xf0 && byte(1) < 0x90, beyond = first == 0xf4 && byte(1) >= 0x90;
        return overlong || beyond ? 0 : 4;
    }
    return 0;
}

std::string value_text(const Value& value) {
    if (const auto text = value.as_string()) return "\"" + printable(*text, shown_text_bytes) + "\"";
    if (value.is_array()) {
        std::string out = "[";
        size_t shown = 0;
        value.each([&](const Value& element) {
            if (shown == shown_text_elements) return false;
            out += (shown++ ? ", " : "") + value_text(element);
            return true;
        });
        if (value.size() > shown) out += fmt::format(", ... {} in all", value.size());
        return out + "]";
    }
    if (value.type() == ValueType::boolean) return *value.as_bool() ? "true" : "false";
    if (const auto number = value.as_uint()) return fmt::format("{}", *number);
    if (const auto number = value.as_int()) return fmt::format("{}", *number);
    if (value.type() == ValueType::f32) return fmt::format("{}", float(*value.as_float()));
    return fmt::format("{}", *value.as_float());
}

std::string type_text(const Value& value) {
    return value.is_array() ? fmt::format("{}[]", value_type_name(value.element_type()))
                            : value_type_name(value.type());
}

std::string size_text(uint64_t bytes) {
    constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double size = double(bytes);
    size_t unit = 0;
    while (size >= 1024 && unit < 4) size /= 1024, ++unit;
    return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.2f} {}", size, units[unit]);
}

std::string count_text(uint64_t count) {
    if (count >= 1000000000) return fmt::format("{:.2f} B", double(count) * 1e-9);
    if (count >= 1000000) return fmt::format("{:.2f} M", double(count) * 1e-6);
    return fmt::format("{}", count);
}

Json value_json(const Value& value) {
    if (const auto text = value.as_string()) return std::string(*text);
    if (value.is_array()) {
        Json first = Json::array();
        value.each([&](const Value& element) {
            if (first.size() == shown_json_elements) return false;
            first.push_back(value_json(element));
            return true;
        });
        if (value.size() <= shown_json_elements) return first;
        return {{"array_of", value_type_name(value.element_type())},
                {"count", value.size()},
                {"first", std::move(first)}};
    }
    if (value.type() == ValueType::boolean) return *value.as_bool();
    if (const auto number = value.as_uint()) return *number;
    if (const auto number = value.as_int()) return *number;
    return *value.as_float();
}

std::vector<uint64_t> shape_of(const Tensor& tensor) {
    return {tensor.shape.begin(), tensor.shape.begin() + tensor.dimensions};
}

uint64_t tensors_in(const File& file, size_t shard) {
    const std::span<const Tensor> tensors = file.tensors();
    return uint64_t(std::count_if(tensors.begin(), tensors.end(),
                                  [&](const Tensor& t) { return size_t(t.shard) == shard; }));
}

}  // namespace

std::string printable(std::string_view text, size_t most_bytes) {
    std::string out;
    while (!text.empty()) {
        const size_t length = character_bytes(text);
        const uint8_t first = uint8_t(text[0]);
        std::string shown;
        if (first == '\n')
            shown = "\\n";
        else if (first == '\t')
            shown = "\\t";
        else if (first == '\r')
            shown = "\\r";
        // C1 controls (U+0080 to U+009F, c2 80 to c2 9f) can steer a terminal too.
        else if (length == 0 || first < 0x20 || first == 0x7f || (first == 0xc2 && uint8_t(text[1]) < 0xa0))
            shown = fmt::format("\\x{:02x}", first);
        else
            shown = text.substr(0, length);
        if (out.size() + shown.size() > most_bytes) return out + "...";
        // An escaped first byte of a C1 control leaves its second one, which is invalid alone and escaped
        // next.
        text.remove_prefix(shown[0] == '\\' ? 1 : length);
        out += shown;
    }
    return out;
}

bool is_expert_tensor(std::string_view name) {
    if (name.find("_exps.") != std::string_view::npos) return true;
    // Older files have one tensor an expert: blk.0.ffn_up.7.weight
    const size_t at = name.find(".ffn_");
    if (at == std::string_view::npos) return false;
    const size_t dot = name.find('.', at + 1);
    return dot != std::string_view::npos && dot + 1 < name.size() &&
           std::isdigit(uint8_t(name[dot + 1])) != 0;
}

std::vector<TypeUse> type_histogram(const File& file) {
    std::vector<TypeUse> uses;
    for (const Tensor& tensor : file.tensors()) {
        auto use =
            std::find_if(uses.begin(), uses.end(), [&](const TypeUse& u) { return u.type == tensor.type; });
        if (use == uses.end()) use = uses.insert(uses.end(), TypeUse{tensor.type});
        ++use->tensors;
        use->elements += tensor.elements();
        use->bytes += tensor.bytes;
    }
    std::stable_sort(uses.begin(), uses.end(),
                     [](const TypeUse& a, const TypeUse& b) { return a.bytes > b.bytes; });
    return uses;
}

ParameterCount count_parameters(const File& file) {
    ParameterCount count;
    // A key of a strange type is shown as it is, and counts as absent here.
    const auto number = [&](const std::string& key) {
        const Value* value = file.find(key);
        return value ? value->as_uint().value_or(0) : 0;
    };
    const Value* name = file.find("general.architecture");
    const std::string architecture(name ? name->as_string().value_or("") : "");
    count.expert_count = number(architecture + ".expert_count");
    count.experts_used = std::min(number(architecture + ".expert_used_count"), count.expert_count);
    for (const Tensor& tensor : file.tensors()) {
        count.total += tensor.elements();
        if (count.expert_count != 0 && is_expert_tensor(tensor.name)) count.experts += tensor.elements();
    }
    count.active = count.total - count.experts;
    if (count.expert_count !=
        0)  // experts / expert_count * used, without overflow and exact for whole experts
        count.active += uint64_t(__extension__(unsigned __int128)(count.experts) * count.experts_used /
                                 count.expert_count);
    return count;
}

std::string inspect_text(const File& file) {
    const ParameterCount count = count_parameters(file);
    std::string out;
    const auto line = [&](std::string_view text) { out.append(text).append("\n"); };
    line(fmt::format("{}", printable(file.path())));
    line(fmt::format(
        "GGUF version {}, {} tensors, {} metadata entries, alignment {}, {} ({} bytes) in {} file{}",
        file.version(), file.tensors().size(), file.metadata().size(), file.alignment(),
        size_text(file.total_bytes()), file.total_bytes(), file.shards().size(),
        file.shards().size() == 1 ? "" : "s"));
    line(fmt::format("parameters: {} ({}), active for a token: {} ({})", count_text(count.total), count.total,
                     count_text(count.active), count.active));
    if (count.expert_count != 0)
        line(fmt::format(
            "  {} of {} experts a token; {} parameters are in experts; the token embedding counts as active",
            count.experts_used, count.expert_count, count_text(count.experts)));
    if (file.shards().size() > 1)
        for (size_t i = 0; i < file.shards().size(); ++i)
            line(fmt::format("  file {}: {}, {} bytes, {} tensors", i + 1, printable(file.shards()[i].path()),
                             file.shards()[i].size(), tensors_in(file, i)));

    line("\ntypes");
    line(fmt::format("  {:<8} {:>8} {:>16} {:>16} {:>12} {:>7}", "type", "tensors", "weights", "bytes",
                     "bits/weight", "share"));
    uint64_t bytes = 0, elements = 0;
    const std::vector<TypeUse> uses = type_histogram(file);
    for (const TypeUse& use : uses) bytes += use.bytes, elements += use.elements;
    for (const TypeUse& use : uses)
        line(fmt::format("  {:<8} {:>8} {:>16} {:>16} {:>12.2f} {:>6.1f}%", type_name(use.type), use.tensors,
                         use.elements, use.bytes, use.bits_per_weight(),
                         100.0 * double(use.bytes) / double(bytes)));
    line(fmt::format("  {:<8} {:>8} {:>16} {:>16} {:>12.2f}", "all", file.tensors().size(), elements, bytes,
                     elements ? 8.0 * double(bytes) / double(elements) : 0.0));

    line("\nmetadata");
    for (const Entry& entry : file.metadata())
        line(fmt::format("  {:<40} {:<9} {}", printable(entry.key, 200), type_text(entry.value),
                         value_text(entry.value)));

    line("\ntensors");
    size_t widest = 4;
    for (const Tensor& tensor : file.tensors()) widest = std::max(widest, tensor.name.size());
    for (const Tensor& tensor : file.tensors())
        line(fmt::format("  {:<{}}  {:<8} {:>14} bytes  {}", printable(tensor.name), widest,
                         type_name(tensor.type), tensor.bytes, shape_text(tensor)));
    return out;
}

std::string inspect_json(const File& file) {
    const ParameterCount count = count_parameters(file);
    Json root;
    root["path"] = file.path();
    root["version"] = file.version();
    root["alignment"] = file.alignment();
    root["bytes"] = file.total_bytes();
    root["parameters"] = {{"total", count.total},
                          {"active", count.active},
                          {"in_experts", count.experts},
                          {"expert_count", count.expert_count},
                          {"experts_used", count.experts_used}};
    root["files"] = Json::array();
    for (size_t i = 0; i < file.shards().size(); ++i)
        root["files"].push_back({{"path", file.shards()[i].path()},
                                 {"bytes", file.shards()[i].size()},
                                 {"tensors", tensors_in(file, i)}});
    root["types"] = Json::array();
    for (const TypeUse& use : type_histogram(file))
        root["types"].push_back({{"type", type_name(use.type)},
                                 {"tensors", use.tensors},
                                 {"weights", use.elements},
                                 {"bytes", use.bytes},
                                 {"bits_per_weight", use.bits_per_weight()}});
    root["metadata"] = Json::object();
    for (const Entry& entry : file.metadata())
        root["metadata"][std::string(entry.key)] = value_json(entry.value);
    root["tensors"] = Json::array();
    for (const Tensor& tensor : file.tensors())
        root["tensors"].push_back({{"name", tensor.name},
                                   {"type", type_name(tensor.type)},
                                   {"shape", shape_of(tensor)},
                                   {"bytes", tensor.bytes},
                                   {"offset", tensor.offset},
                                   {"file", tensor.shard}});
    // Text that is not UTF-8 must not make the output invalid.
    return root.dump(2);
}

}  // namespace coterie::gguf
