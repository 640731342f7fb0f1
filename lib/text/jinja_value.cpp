#include "text/jinja_value.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "text/jinja_text.h"

namespace coterie::text::jinja {
namespace {

constexpr size_t indexed_from = 8;

void require_bounds(uint32_t depth, uint64_t weight) {
    if (depth > max_value_depth) trouble("a value is nested more than {} levels deep", max_value_depth);
    require_weight(weight);
}

}  // namespace

void require_weight(uint64_t weight) {
    if (weight > max_value_weight) trouble("a value grows beyond {} bytes", max_value_weight);
}

Value Value::undefined(std::string why) {
    Value value;
    value.data_ = Undefined{std::make_shared<const std::string>(std::move(why))};
    return value;
}

Value Value::none() {
    Value value;
    value.data_ = None{};
    return value;
}

Value Value::boolean(bool truth_value) {
    Value value;
    value.data_ = truth_value;
    return value;
}

Value Value::integer(int64_t number) {
    Value value;
    value.data_ = number;
    return value;
}

Value Value::real(double number) {
    Value value;
    value.data_ = number;
    return value;
}

Value Value::text(std::string string) {
    require_bounds(0, string.size());
    Value value;
    value.data_ = std::make_shared<const std::string>(std::move(string));
    return value;
}

Value Value::list(std::vector<Value> items, Sequence sequence) {
    List list;
    for (const Value& item : items) {
        list.depth = std::max(list.depth, item.depth() + 1);
        list.weight += item.weight();
    }
    require_bounds(list.depth, list.weight);
    list.items = std::move(items);
    list.sequence = sequence;
    Value value;
    value.data_ = std::make_shared<const List>(std::move(list));
    return value;
}

Value Value::dict(Dict entries) {
    require_bounds(entries.depth(), entries.weight());
    Value value;
    value.data_ = std::make_shared<const Dict>(std::move(entries));
    return value;
}

Value Value::object(std::shared_ptr<Object> object) {
    require_bounds(object->depth(), 0);
    Value value;
    value.data_ = std::move(object);
    return value;
}

bool Value::is_sequence(Sequence sequence) const {
    return is_list() && as_list().sequence == sequence;
}

const std::vector<Value>& Value::items() const {
    return as_list().items;
}

std::string Value::why_undefined() const {
    const auto& why = std::get<Undefined>(data_).why;
    return why ? *why : "a value is undefined";
}

uint32_t Value::depth() const {
    if (is_list()) return as_list().depth;
    if (is_dict()) return as_dict().depth();
    if (is_object()) return as_object().depth();
    return 0;
}

uint64_t Value::weight() const {
    if (is_text()) return as_text().size() + 32;
    if (is_list()) return as_list().weight;
    if (is_dict()) return as_dict().weight();
    return 16;
}

bool Value::same_as(const Value& other) const {
    if (data_.index() != other.data_.index()) return false;
    if (is_list()) return std::get<ListPointer>(data_) == std::get<ListPointer>(other.data_);
    if (is_dict()) return std::get<DictPointer>(data_) == std::get<DictPointer>(other.data_);
    if (is_object()) return std::get<ObjectPointer>(data_) == std::get<ObjectPointer>(other.data_);
    if (is_undefined()) return false;
    return equal(*this, other);
}

size_t Dict::place(const Value& key, size_t hash) const {
    if (entries_.size() < indexed_from) {
        for (size_t i = 0; i < entries_.size(); ++i) {
            if (equal(entries_[i].first, key)) return i;
        }
        return entries_.size();
    }
    auto [first, last] = index_.equal_range(hash);
    for (; first != last; ++first) {
        if (equal(entries_[first->second].first, key)) return first->second;
    }
    return entries_.size();
}

void Dict::set(Value key, Value value) {
    const size_t hash = hash_of(key);
    const size_t found = place(key, hash);
    depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
    weight_ += key.weight() + value.weight() + 4;
    require_bounds(depth_, weight_);
    if (found < entries_.size()) {
        entries_[found].second = std::move(value);
        return;
    }
    entries_.emplace_back(std::move(key), std::move(value));
    if (entries_.size() == indexed_from) {
        for (size_t i = 0; i < entries_.size(); ++i)
            index_.emplace(hash_of(entries_[i].first), static_cast<uint32_t>(i));
    } else if (entries_.size() > indexed_from) {
        index_.emplace(hash, static_cast<uint32_t>(entries_.size() - 1));
    }
}

bool Dict::erase(std::string_view key) {
    const Value* found = find(key);
    if (!found) return false;
    Dict rest;
    for (Entry& entry : entries_) {
        if (&entry.second != found) rest.set(std::move(entry.first), std::move(entry.second));
    }
    *this = std::move(rest);
    return true;
}

const Value* Dict::find(const Value& key) const {
    const size_t found = place(key, hash_of(key));
    return found < entries_.size() ? &entries_[found].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
    if (entries_.size() < indexed_from) {
        for (const Entry& entry : entries_) {
            if (entry.first.is_text() && entry.first.as_text() == key) return &entry.second;
        }
        return nullptr;
    }
    auto [first, last] = index_.equal_range(std::hash<std::string_view>{}(key));
    for (; first != last; ++first) {
        const Entry& entry = entries_[first->second];
        if (entry.first.is_text() && entry.first.as_text() == key) return &entry.second;
    }
    return nullptr;
}

void Dict::clear() {
    *this = Dict();
}

Value Object::attribute(const std::string& name) const {
    return Value::undefined(fmt::format("'{}' object has no attribute '{}'", type_name(), name));
}

Value Object::call(const Arguments&) {
    trouble("'{}' object is not callable", type_name());
}

const char* type_name(const Value& value) {
    if (value.is_undefined()) return "Undefined";
    if (value.is_none()) return "NoneType";
    if (value.is_boolean()) return "bool";
    if (value.is_integer()) return "int";
    if (value.is_real()) return "float";
    if (value.is_text()) return "str";
    if (value.is_dict()) return "dict";
    if (value.is_object()) return value.as_object().type_name();
    switch (value.as_list().sequence) {
        case Sequence::list:
            return "list";
        case Sequence::tuple:
            return "tuple";
        case Sequence::generator:
            return "generator";
        case Sequence::keys:
            return "dict_keys";
        case Sequence::values:
            return "dict_values";
        case Sequence::items:
            return "dict_items";
        case Sequence::range:
            return "range";
    }
    return "list";
}

bool truth(const Value& value) {
    if (value.is_undefined() || value.is_none()) return false;
    if (value.is_boolean()) return value.as_boolean();
    if (value.is_integer()) return value.as_whole() != 0;
    if (value.is_real()) return value.as_double() != 0;
    if (value.is_text()) return !value.as_text().empty();
    if (value.is_dict()) return value.as_dict().size() != 0;
    if (value.is_list()) return value.as_list().sequence == Sequence::generator || !value.items().empty();
    return true;
}

bool equal(const Value& left, const Value& right) {
    if (left.is_text()) return right.is_text() && left.as_text() == right.as_text();
    if (left.is_number()) {
        if (!right.is_number()) return false;
        if (left.is_whole() && right.is_whole()) return left.as_whole() == right.as_whole();
        return left.as_double() == right.as_double();
    }
    if (left.is_undefined()) return right.is_undefined();
    if (left.is_none()) return right.is_none();
    if (left.is_object()) return right.is_object() && left.same_as(right);
    if (left.is_dict()) {
        if (!right.is_dict() || left.as_dict().size() != right.as_dict().size()) return false;
        for (const auto& [key, value] : left.as_dict().entries()) {
            const Value* other = right.as_dict().find(key);
            if (!other || !equal(value, *other)) return false;
        }
        return true;
    }
    if (!right.is_list() || left.as_list().sequence != right.as_list().sequence) return false;
    if (left.same_as(right)) return true;
    if (left.as_list().sequence == Sequence::generator) return false;
    const auto& a = left.items();
    const auto& b = right.items();
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), equal);
}

bool less(const Value& left, const Value& right, const char* sign) {
    if (left.is_text() && right.is_text()) return left.as_text() < right.as_text();
    if (left.is_whole() && right.is_whole()) return left.as_whole() < right.as_whole();
    if (left.is_number() && right.is_number()) return left.as_double() < right.as_double();
    if (left.is_undefined()) trouble("{}", left.why_undefined());
    if (right.is_undefined()) trouble("{}", right.why_undefined());
    if (left.is_list() && right.is_list() && left.as_list().sequence == right.as_list().sequence &&
        (left.is_sequence(Sequence::list) || left.is_sequence(Sequence::tuple))) {
        const auto& a = left.items();
        const auto& b = right.items();
        for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
            if (!equal(a[i], b[i])) return less(a[i], b[i], sign);
        }
        return a.size() < b.size();
    }
    trouble("'{}' is not supported between '{}' and '{}'", sign, type_name(left), type_name(right));
}

bool contains(const Value& container, const Value& item) {
    if (container.is_text()) {
        if (!item.is_text()) trouble("'in <str>' needs a str on its left, found '{}'", type_name(item));
        return container.as_text().find(item.as_text()) != std::string::npos;
    }
    if (container.is_dict()) return container.as_dict().find(item) != nullptr;
    if (container.is_list()) {
        const auto& items = container.items();
        return std::any_of(items.begin(), items.end(), [&](const Value& one) { return equal(one, item); });
    }
    if (container.is_undefined()) return false;
    trouble("'in' can't look into a '{}'", type_name(container));
}

size_t hash_of(const Value& value) {
    if (value.is_text()) return std::hash<std::string_view>{}(value.as_text());
    if (value.is_number()) {
        const double number = value.as_double();
        return std::hash<double>{}(number == 0 ? 0.0 : number);
    }
    if (value.is_none()) return 7;
    if (value.is_undefined()) return 11;
    if (value.is_sequence(Sequence::tuple)) {
        size_t hash = 13;
        for (const Value& item : value.items()) hash = hash * 1000003 + hash_of(item);
        return hash;
    }
    if (value.is_object()) return std::hash<const void*>{}(&value.as_object());
    trouble("a '{}' can't be the key of a dict", type_name(value));
}

int64_t length_of(const Value& value) {
    if (value.is_text()) return static_cast<int64_t>(code_point_count(value.as_text()));
    if (value.is_dict()) return static_cast<int64_t>(value.as_dict().size());
    if (value.is_undefined()) return 0;
    if (!value.is_list() || value.is_sequence(Sequence::generator))
        trouble("a '{}' has no length", type_name(value));
    return static_cast<int64_t>(value.items().size());
}

std::vector<Value> elements(const Value& value) {
    if (value.is_list()) return value.items();
    if (value.is_undefined()) return {};
    std::vector<Value> all;
    if (value.is_dict()) {
        for (const auto& entry : value.as_dict().entries()) all.push_back(entry.first);
        return all;
    }
    if (value.is_text()) {
        const std::string& text = value.as_text();
        for (size_t at = 0; at < text.size();) {
            const size_t bytes = code_point_bytes(text, at);
            all.push_back(Value::text(text.substr(at, bytes)));
            at += bytes;
        }
        return all;
    }
    trouble("a '{}' can't be iterated over", type_name(value));
}

}  // namespace coterie::text::jinja
