// A JSON value for the library: read, looked into, changed, written. Objects keep the order of their keys.
// Not nlohmann's value (its parser reads the texts, though): the destructors of that one allocate and so end
// the process when memory runs out, and some of its assignments then leave a pointer to nothing.
// Invariants: destruction allocates nothing; what parse() gives is nested at most `deepest` levels, so that
// walks over it may recurse; a kind that was not asked for before get() is a Failure, never undefined.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace coterie {

class Json {
  public:
    static constexpr int deepest = 500;

    struct Entry;
    using Array = std::vector<Json>;
    using Object = std::vector<Entry>;

    Json() noexcept;  // null
    Json(std::nullptr_t) noexcept : Json() {}
    Json(const Json& other);
    Json(Json&& other) noexcept;
    Json& operator=(Json other) noexcept;
    ~Json();
    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
    Json(T value) noexcept : Json() {
        if constexpr (std::is_same_v<T, bool>)
            kind_ = Kind::boolean, number_.truth = value;
        else if constexpr (std::is_floating_point_v<T>)
            kind_ = Kind::real, number_.real = double(value);
        else if constexpr (std::is_signed_v<T>)
            kind_ = Kind::whole, number_.whole = int64_t(value);
        else
            kind_ = Kind::natural, number_.natural = uint64_t(value);
    }
    Json(const char* text) : Json(std::string(text)) {}
    Json(std::string_view text) : Json(std::string(text)) {}
    Json(std::string text);
    template <typename T>
    Json(const std::vector<T>& elements) : Json(of(Array(elements.begin(), elements.end()))) {}
    // {{"key", value}, ...} is an object, anything else in braces an array.
    Json(std::initializer_list<Json> elements);
    static Json array(std::initializer_list<Json> elements = {});
    static Json object();
    static Json of(Array elements);
    static Json of(Object entries);

    // Nothing if the text is not JSON or nested too deeply; `why` then says so.
    static std::optional<Json> parse(std::string_view text, std::string* why = nullptr);
    // Spread over lines by `indent` blanks a level; -1: compact. Bytes that are not UTF-8 become U+FFFD.
    std::string dump(int indent = -1) const;

    bool is_null() const { return kind_ == Kind::null; }
    bool is_boolean() const { return kind_ == Kind::boolean; }
    bool is_number_unsigned() const { return kind_ == Kind::natural; }  // 0, 1, 2, ...
    bool is_number_integer() const { return kind_ == Kind::whole || kind_ == Kind::natural; }
    bool is_number_float() const { return kind_ == Kind::real; }
    bool is_number() const { return is_number_integer() || is_number_float(); }
    bool is_string() const { return kind_ == Kind::text; }
    bool is_array() const { return kind_ == Kind::array; }
    bool is_object() const { return kind_ == Kind::object; }

    template <typename T>
    T get() const {
        if constexpr (std::is_same_v<T, std::string>) {
            return text();
        } else if constexpr (std::is_same_v<T, bool>) {
            return truth();
        } else {
            static_assert(std::is_arithmetic_v<T>, "a text, a truth or a number");
            if (kind_ == Kind::whole) return T(number_.whole);
            if (kind_ == Kind::natural) return T(number_.natural);
            return T(real());
        }
    }
    const std::string& text() const;

    // Of arrays and objects; 0 of anything else.
    size_t size() const;
    bool empty() const { return size() == 0; }

    // Elements of an array; none of anything else.
    const Json* begin() const;
    const Json* end() const { return begin() + (is_array() ? size() : 0); }
    Json* begin() { return const_cast<Json*>(std::as_const(*this).begin()); }
    Json* end() { return begin() + (is_array() ? size() : 0); }
    const Json& operator[](size_t index) const;
    Json& operator[](size_t index) { return const_cast<Json&>(std::as_const(*this)[index]); }
    void push_back(Json value);  // makes an array of null

    // Entries of an object; none of anything else.
    const Object& items() const;
    const Json* find(std::string_view key) const;  // nullptr without it
    Json* find(std::string_view key) { return const_cast<Json*>(std::as_const(*this).find(key)); }
    bool contains(std::string_view key) const { return find(key) != nullptr; }
    Json value(std::string_view key, Json otherwise) const;
    const Json& operator[](std::string_view key) const;  // null without it
    Json& operator[](std::string_view key);              // added without it; makes an object of null
    bool erase(std::string_view key);
    template <typename Wanted>
    void erase_if(Wanted wanted);  // wanted(key)
    void update(const Json& other);

    // What "/properties/a/0" leads to from here (RFC 6901); nullptr if nothing is there.
    const Json* at_pointer(std::string_view pointer) const;

    // Numbers are compared by value, objects without regard to order.
    friend bool operator==(const Json& a, const Json& b);
    friend bool operator<(const Json& a, const Json& b);  // of two numbers

  private:
    bool truth() const;
    double real() const;

    // Not a std::variant: when a copy of one throws, g++ 12's destroys what was never made.
    enum class Kind : uint8_t { null, boolean, whole, natural, real, text, array, object };
    struct Content;  // of texts, arrays and objects
    union Number {
        bool truth;
        int64_t whole;
        uint64_t natural;
        double real;
    };
    Object* entries();

    Kind kind_ = Kind::null;
    Number number_{};
    std::unique_ptr<Content> content_;
};

struct Json::Entry {
    Entry(std::string name, Json content) noexcept : key(std::move(name)), value(std::move(content)) {}
    std::string key;
    Json value;
};

template <typename Wanted>
void Json::erase_if(Wanted wanted) {
    if (Object* all = entries()) std::erase_if(*all, [&](const Entry& e) { return wanted(e.key); });
}

// A byte as it stands inside a JSON string: escaped where JSON wants it, in its shortest form.
void append_json_byte(std::string& out, char byte);

}  // namespace coterie
