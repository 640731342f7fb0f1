#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/failure.h"

namespace coterie {
namespace {

const Json nothing;
const Json::Object no_entries;

// Makes values of the parser's events.
class Reader {
  public:
    using number_integer_t = nlohmann::json::number_integer_t;
    using number_unsigned_t = nlohmann::json::number_unsigned_t;
    using number_float_t = nlohmann::json::number_float_t;
    using string_t = nlohmann::json::string_t;
    using binary_t = nlohmann::json::binary_t;

    Json result;
    std::string why;

    bool null() { return add({}); }
    bool boolean(bool value) { return add(value); }
    bool number_integer(number_integer_t value) { return add(value); }
    bool number_unsigned(number_unsigned_t value) { return add(value); }
    bool number_float(number_float_t value, const string_t&) { return add(value); }
    bool string(string_t& value) { return add(std::move(value)); }
    bool binary(binary_t&) { return false; }
    bool start_object(size_t) { return open(Json::object()); }
    bool key(string_t& value) {
        open_.back().key = std::move(value);
        return true;
    }
    bool end_object() { return close(); }
    bool start_array(size_t) { return open(Json::array()); }
    bool end_array() { return close(); }
    bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& exception) {
        const std::string_view what = exception.what();  // "[json.exception...] parse error at line 1, ..."
        const size_t name = what.find("] ");
        why = what.substr(name == std::string_view::npos ? 0 : name + 2);
        return false;
    }

  private:
    struct Level {
        Json::Array elements;
        std::vector<Json::Entry> entries;
        std::string key;
        bool object;
    };

    bool open(const Json& kind) {
        if (open_.size() >= size_t(Json::deepest)) {
            why = fmt::format("nested more than {} deep", Json::deepest);
            return false;
        }
        open_.push_back({{}, {}, {}, kind.is_object()});
        return true;
    }

    bool add(Json value) {
        if (open_.empty())
            result = std::move(value);
        else if (Level& level = open_.back(); level.object)
            level.entries.emplace_back(std::move(level.key), std::move(value));
        else
            level.elements.push_back(std::move(value));
        return true;
    }

    // Of entries with the same key the last counts.
    static void keep_last(std::vector<Json::Entry>& entries) {
        std::vector<size_t> order(entries.size());
        std::iota(order.begin(), order.end(), size_t(0));
        std::stable_sort(order.begin(), order.end(),
                         [&](size_t a, size_t b) { return entries[a].key < entries[b].key; });
        std::vector<bool> dropped(entries.size());
        bool any = false;
        for (size_t i = 0; i + 1 < order.size(); ++i)
            if (entries[order[i]].key == entries[order[i + 1]].key) dropped[order[i]] = any = true;
        if (!any) return;
        size_t kept = 0;
        for (size_t i = 0; i < entries.size(); ++i) {
            if (dropped[i]) continue;
            if (kept != i) entries[kept] = std::move(entries[i]);
            ++kept;
        }
        entries.erase(entries.begin() + ptrdiff_t(kept), entries.end());
    }

    bool close() {
        Level level = std::move(open_.back());
        open_.pop_back();
        if (level.object) keep_last(level.entries);
        return add(level.object ? Json::of(std::move(level.entries)) : Json::of(std::move(level.elements)));
    }

    std::vector<Level> open_;
};

// Bytes of the character that begins the text; 0 if they form none.
size_t character(std::string_view text) {
    const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const unsigned first = byte(0), second = byte(1);
    const auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
    if (first >= 0xe0 && first <= 0xef) {
        const bool overlong = first == 0xe0 && second < 0xa0, surrogate = first == 0xed && second > 0x9f;
        return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        const bool overlong = first == 0xf0 && second < 0x90, beyond = first == 0xf4 && second > 0x8f;
        return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
    }
    return 0;
}

void write_text(std::string& out, std::string_view text) {
    out += '"';
    while (!text.empty()) {
        const size_t length = character(text);
        if (length == 1)
            append_json_byte(out, text[0]);
        else if (length == 0)
            out += "\xef\xbf\xbd";
        else
            out += text.substr(0, length);
        text.remove_prefix(std::max<size_t>(length, 1));
    }
    out += '"';
}

// The shortest digits that read back as the same number, and recognisable as no integer.
void write_number(std::string& out, double value) {
    if (!std::isfinite(value)) {
        out += "null";
        return;
    }
    const std::string digits = fmt::format("{}", value);
    out += digits;
    if (digits.find_first_of(".e") == std::string::npos) out += ".0";
}

void write(std::string& out, const Json& value, int indent, int depth) {
    if (value.is_string()) return write_text(out, value.text());
    if (value.is_null()) {
        out += "null";
    } else if (value.is_boolean()) {
        out += value.get<bool>() ? "true" : "false";
    } else if (value.is_number_unsigned()) {
        out += std::to_string(value.get<uint64_t>());
    } else if (value.is_number_integer()) {
        out += std::to_string(value.get<int64_t>());
    } else if (value.is_number_float()) {
        write_number(out, value.get<double>());
    } else {
        const bool object = value.is_object();
        out += object ? '{' : '[';
        const auto line = [&](int level) {
            if (indent < 0 || value.empty()) return;
            out += '\n';
            out.append(size_t(indent) * size_t(level), ' ');
        };
        bool first = true;
        const auto next = [&] {
            if (!first) out += ',';
            first = false;
            line(depth + 1);
        };
        for (const Json& element : value) {
            next();
            write(out, element, indent, depth + 1);
        }
        for (const auto& [key, element] : value.items()) {
            next();
            write_text(out, key);
            out += indent < 0 ? ":" : ": ";
            write(out, element, indent, depth + 1);
        }
        line(depth);
        out += object ? '}' : ']';
    }
}

}  // namespace

struct Json::Content {
    std::string text;
    Array elements;
    Object entries;
};

Json::Json() noexcept = default;
Json::~Json() = default;
Json::Json(const Json& other)
    : kind_(other.kind_),
      number_(other.number_),
      content_(other.content_ ? std::make_unique<Content>(*other.content_) : nullptr) {}
Json::Json(Json&& other) noexcept
    : kind_(std::exchange(other.kind_, Kind::null)),
      number_(other.number_),
      content_(std::move(other.content_)) {}
Json& Json::operator=(Json other) noexcept {
    kind_ = other.kind_;
    number_ = other.number_;
    content_.swap(other.content_);
    return *this;
}

Json::Json(std::string text) : content_(new Content{std::move(text), {}, {}}) {
    kind_ = Kind::text;
}

Json::Json(std::initializer_list<Json> elements) {
    const bool pairs = std::all_of(elements.begin(), elements.end(), [](const Json& element) {
        return element.is_array() && element.size() == 2 && element[0].is_string();
    });
    if (!pairs) {
        *this = of(Array(elements));
        return;
    }
    Object all;
    for (const Json& pair : elements) all.emplace_back(pair[0].text(), pair[1]);
    *this = of(std::move(all));
}

Json Json::array(std::initializer_list<Json> elements) {
    return of(Array(elements));
}

Json Json::object() {
    return of(Object());
}

Json Json::of(Array elements) {
    Json value;
    value.content_.reset(new Content{{}, std::move(elements), {}});
    value.kind_ = Kind::array;
    return value;
}

Json Json::of(Object entries) {
    Json value;
    value.content_.reset(new Content{{}, {}, std::move(entries)});
    value.kind_ = Kind::object;
    return value;
}

Json::Object* Json::entries() {
    return is_object() ? &content_->entries : nullptr;
}

std::optional<Json> Json::parse(std::string_view text, std::string* why) {
    Reader reader;
    if (nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) return std::move(reader.result);
    if (why) *why = reader.why.empty() ? "not JSON" : reader.why;
    return std::nullopt;
}

std::string Json::dump(int indent) const {
    std::string out;
    write(out, *this, indent, 0);
    return out;
}

const std::string& Json::text() const {
    if (!is_string()) fail(Status::internal, "a JSON value is read as a text and is none");
    return content_->text;
}

bool Json::truth() const {
    if (!is_boolean()) fail(Status::internal, "a JSON value is read as true or false and is neither");
    return number_.truth;
}

double Json::real() const {
    if (kind_ != Kind::real) fail(Status::internal, "a JSON value is read as a number and is none");
    return number_.real;
}

size_t Json::size() const {
    return is_array() ? content_->elements.size() : items().size();
}

const Json* Json::begin() const {
    return is_array() ? content_->elements.data() : nullptr;
}

const Json& Json::operator[](size_t index) const {
    if (!is_array() || index >= size()) fail(Status::internal, "a JSON value has no element {}", index);
    return content_->elements[index];
}

void Json::push_back(Json value) {
    if (is_null()) *this = array();
    if (!is_array()) fail(Status::internal, "a JSON value that is no list gets an element");
    content_->elements.push_back(std::move(value));
}

const Json::Object& Json::items() const {
    return is_object() ? content_->entries : no_entries;
}

const Json* Json::find(std::string_view key) const {
    for (const Entry& entry : items())
        if (entry.key == key) return &entry.value;
    return nullptr;
}

Json Json::value(std::string_view key, Json otherwise) const {
    const Json* found = find(key);
    return found ? *found : std::move(otherwise);
}

const Json& Json::operator[](std::string_view key) const {
    const Json* found = find(key);
    return found ? *found : nothing;
}

Json& Json::operator[](std::string_view key) {
    if (is_null()) *this = object();
    if (!is_object()) fail(Status::internal, "a JSON value that is no object gets the key '{}'", key);
    if (Json* found = find(key)) return *found;
    content_->entries.emplace_back(std::string(key), Json());
    return content_->entries.back().value;
}

bool Json::erase(std::string_view key) {
    const size_t before = size();
    erase_if([&](const std::string& each) { return each == key; });
    return size() != before;
}

void Json::update(const Json& other) {
    for (const auto& [key, value] : other.items()) (*this)[key] = value;
}

const Json* Json::at_pointer(std::string_view pointer) const {
    const Json* at = this;
    while (at && !pointer.empty()) {
        if (pointer[0] != '/') return nullptr;
        const size_t end = std::min(pointer.find('/', 1), pointer.size());
        std::string name;
        for (size_t i = 1; i < end; ++i) {
            const bool escaped = pointer[i] == '~' && i + 1 < end;
            if (escaped) ++i;
            name += escaped && pointer[i] == '1' ? '/' : escaped && pointer[i] == '0' ? '~' : pointer[i];
        }
        pointer.remove_prefix(end);
        if (at->is_array()) {
            const bool digits = !name.empty() && name.size() < 10 &&
                                name.find_first_not_of("0123456789") == std::string::npos;
            const size_t index = digits ? std::stoul(name) : at->size();
            at = index < at->size() ? &(*at)[index] : nullptr;
        } else {
            at = at->find(name);
        }
    }
    return at;
}

bool operator==(const Json& a, const Json& b) {
    if (a.is_number() && b.is_number()) {
        if (a.is_number_float() || b.is_number_float()) return a.get<double>() == b.get<double>();
        return !(a < b) && !(b < a);
    }
    if (a.kind_ != b.kind_) return false;
    if (a.is_string()) return a.text() == b.text();
    if (a.is_boolean()) return a.truth() == b.truth();
    if (a.size() != b.size()) return false;
    if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin());
    return std::all_of(a.items().begin(), a.items().end(), [&](const Json::Entry& entry) {
        const Json* other = b.find(entry.key);
        return other && *other == entry.value;
    });
}

bool operator<(const Json& a, const Json& b) {
    if (a.is_number_float() || b.is_number_float()) return a.get<double>() < b.get<double>();
    const bool a_below = !a.is_number_unsigned() && a.get<int64_t>() < 0,
               b_below = !b.is_number_unsigned() && b.get<int64_t>() < 0;
    if (a_below || b_below) return a_below && (!b_below || a.get<int64_t>() < b.get<int64_t>());
    return a.get<uint64_t>() < b.get<uint64_t>();
}

void append_json_byte(std::string& out, char byte) {
    const auto value = static_cast<unsigned char>(byte);
    switch (byte) {
        case '"':
            out += "\\\"";
            break;
        case '\\':
            out += "\\\\";
            break;
        case '\n':
            out += "\\n";
            break;
        case '\r':
            out += "\\r";
            break;
        case '\t':
            out += "\\t";
            break;
        case '\b':
            out += "\\b";
            break;
        case '\f':
            out += "\\f";
            break;
        default:
            if (value < 0x20)
                out += fmt::format("\\u{:04x}", value);
            else
                out += byte;
    }
}

}  // namespace coterie
