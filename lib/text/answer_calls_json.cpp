// Calls written as JSON: {"name": "f", "arguments": {...}}, a list of such, and f SEPARATOR {...}.
// Arguments stream as soon as the name is known; arguments that come before the name wait for it.

#include "base/json.h"
#include "text/answer_calls.h"

namespace coterie::text {
namespace {

bool space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

std::string decoded(const std::string& json) {
    const std::optional<Json> value = Json::parse(json);
    if (!value) return {};
    return value->is_string() ? value->text() : value->is_number() ? value->dump() : std::string();
}

class JsonCalls final : public CallReader {
  public:
    JsonCalls(AnswerEvents& events, const ToolTypes& tools, bool untagged)
        : CallReader(events, tools), untagged_(untagged) {}

    CallStep feed(char byte) override {
        if (raw.size() > longest_undecided_call && !events_.in_call()) return CallStep::reject;
        switch (at_) {
            case At::start:
                return start(byte);
            case At::key:
                return key(byte);
            case At::colon:
                if (space(byte)) return CallStep::more;
                if (byte != ':') return CallStep::reject;
                at_ = At::value_start;
                return CallStep::more;
            case At::value_start:
                if (space(byte)) return CallStep::more;
                return begin_value(byte);
            case At::value:
                return value(byte);
            case At::after_value:
                return after_value(byte);
            case At::after_object:
                return after_object(byte);
        }
        return CallStep::reject;
    }

    CallStep finish() override {
        if (events_.in_call()) {
            close();
            return CallStep::broken;
        }
        const bool over = at_ == At::after_object || (at_ == At::after_value && ended_);
        return any_ && over ? CallStep::done : CallStep::reject;
    }

  private:
    enum class At : uint8_t { start, key, colon, value_start, value, after_value, after_object };
    enum class Role : uint8_t { name, arguments, id, other };

    CallStep start(char byte) {
        if (space(byte)) return CallStep::more;
        if (byte == '[' && !list_ && !any_) {
            list_ = true;
            return CallStep::more;
        }
        if (byte != '{') return CallStep::reject;
        at_ = At::key;
        key_.clear();
        name_.clear();
        id_.clear();
        held_.clear();
        have_arguments_ = in_key_ = nested_ = ended_ = false;
        return CallStep::more;
    }

    CallStep key(char byte) {
        if (in_key_) {
            const auto step = stream_.feed(byte, key_);
            if (step == JsonStream::Step::bad || key_.size() > longest_call_name) return CallStep::reject;
            if (step != JsonStream::Step::done) return CallStep::more;
            in_key_ = false;
            at_ = At::colon;
            return CallStep::more;
        }
        if (space(byte)) return CallStep::more;
        if (byte == '}') return after_value(byte);
        if (byte != '"') return CallStep::reject;
        stream_ = JsonStream();
        key_.clear();
        in_key_ = true;
        stream_.feed(byte, key_);
        return CallStep::more;
    }

    CallStep begin_value(char byte) {
        stream_ = JsonStream();
        value_.clear();
        at_ = At::value;
        const std::string key = decoded(key_);
        role_ = Role::other;
        if (key == "function" && byte == '{' && !nested_) {
            nested_ = true;
            at_ = At::key;
            return CallStep::more;
        }
        if (key == "name" || key == "tool_name" || key == "function")
            role_ = Role::name;
        else if (key == "arguments" || key == "parameters")
            role_ = Role::arguments;
        else if (key == "id" || key == "tool_call_id")
            role_ = Role::id;
        else if (untagged_ && key != "type")
            return CallStep::reject;
        if (role_ == Role::name && byte != '"') return CallStep::reject;
        if (role_ == Role::arguments && (have_arguments_ || (byte != '{' && byte != '"' && byte != 'n')))
            return CallStep::reject;
        streams_ = role_ == Role::arguments && byte == '{' && !name_.empty();
        if (streams_) {
            events_.begin_call(name_, id_);
            have_arguments_ = true;
        }
        return value(byte);
    }

    CallStep value(char byte) {
        std::string piece;
        const auto step = stream_.feed(byte, piece);
        if (streams_)
            events_.arguments(piece);
        else
            value_ += piece;
        if (step == JsonStream::Step::bad) {
            if (!streams_) return CallStep::reject;
            close();
            return CallStep::broken;
        }
        if (step == JsonStream::Step::more) return CallStep::more;
        at_ = At::after_value;
        if (streams_) {
            events_.end_call();
            any_ = ended_ = true;
            return CallStep::call_done;
        }
        if (!take_value()) return CallStep::reject;
        return step == JsonStream::Step::done_before ? after_value(byte) : CallStep::more;
    }

    bool take_value() {
        switch (role_) {
            case Role::name:
                name_ = decoded(value_);
                return call_name_valid(name_) && (!untagged_ || tools_.known(name_));
            case Role::id:
                id_ = decoded(value_);
                return true;
            case Role::other:
                return true;
            case Role::arguments:
                break;
        }
        have_arguments_ = true;
        if (value_.front() == '"') {  // an object inside a string, as OpenAI's interface has it
            held_ = decoded(value_);
            if (held_.empty()) held_ = "{}";
            const std::optional<Json> object = Json::parse(held_);
            return object && object->is_object();
        }
        held_ = value_ == "null" ? "{}" : value_;
        return true;
    }

    CallStep after_value(char byte) {
        if (space(byte)) return CallStep::more;
        if (byte == ',') {
            at_ = At::key;
            return CallStep::more;
        }
        if (byte == '}' && nested_) {
            nested_ = false;
            at_ = At::after_value;
            return CallStep::more;
        }
        if (ended_) {
            if (byte != '}') return after_object(byte);
            at_ = At::after_object;
            return CallStep::more;
        }
        if (byte != '}' || name_.empty() || (untagged_ && !have_arguments_)) return CallStep::reject;
        events_.begin_call(name_, id_);
        events_.arguments(have_arguments_ ? held_ : "{}");
        events_.end_call();
        any_ = true;
        at_ = At::after_object;
        return CallStep::call_done;
    }

    CallStep after_object(char byte) {
        if (list_ && byte == ']') return CallStep::done;
        if (space(byte)) return CallStep::more;
        if (list_ ? byte == ',' : byte == '{' || (untagged_ && byte == ';')) {
            at_ = At::start;
            return byte == '{' ? start(byte) : CallStep::more;
        }
        return CallStep::back;
    }

    void close() {
        std::string rest;
        stream_.close(rest);
        events_.arguments(rest);
        events_.end_call(false, kind, raw);
    }

    bool untagged_, list_ = false, any_ = false, in_key_ = false, nested_ = false, have_arguments_ = false;
    bool streams_ = false, ended_ = false;
    At at_ = At::start;
    Role role_ = Role::other;
    JsonStream stream_;
    std::string key_, value_, name_, id_, held_;
};

// f SEPARATOR {...}, with what the families put around it: a call id (Mistral), a type before the separator
// and the name after it (DeepSeek R1), a fence around the JSON, `functions.` before the name and `:0` behind
// it (Kimi).
class NamedCall final : public CallReader {
  public:
    NamedCall(AnswerEvents& events, const ToolTypes& tools, std::string separator, std::string id_separator)
        : CallReader(events, tools),
          separator_(std::move(separator)),
          id_separator_(std::move(id_separator)) {}

    CallStep feed(char byte) override {
        switch (at_) {
            case At::header:
                return header(byte);
            case At::before_arguments:
                return before_arguments(byte);
            case At::arguments: {
                std::string piece;
                const auto step = stream_.feed(byte, piece);
                events_.arguments(piece);
                if (step == JsonStream::Step::more) return CallStep::more;
                if (step == JsonStream::Step::done) {
                    events_.end_call();
                    at_ = At::fence;
                    return fenced_ ? CallStep::call_done : CallStep::done;
                }
                close();
                return CallStep::broken;
            }
            case At::fence:
                if (space(byte) && ticks_ == 0) return CallStep::more;
                if (byte != '`') return ticks_ == 0 ? CallStep::back : CallStep::reject;
                return ++ticks_ == 3 ? CallStep::done : CallStep::more;
        }
        return CallStep::reject;
    }

    CallStep finish() override {
        if (at_ == At::fence) return ticks_ == 0 ? CallStep::done : CallStep::reject;
        if (!events_.in_call()) return CallStep::reject;
        close();
        return CallStep::broken;
    }

  private:
    enum class At : uint8_t { header, before_arguments, arguments, fence };

    CallStep header(char byte) {
        header_ += byte;
        if (header_.size() > longest_call_name) return CallStep::reject;
        const auto ends_with = [&](const std::string& tail) {
            return !tail.empty() && header_.size() >= tail.size() &&
                   header_.compare(header_.size() - tail.size(), tail.size(), tail) == 0;
        };
        if (ends_with(id_separator_)) {
            name_ = header_.substr(0, header_.size() - id_separator_.size());
            header_.clear();
            in_id_ = true;
        } else if (ends_with(separator_)) {
            (in_id_ ? id_ : name_) = header_.substr(0, header_.size() - separator_.size());
            header_.clear();
            at_ = At::before_arguments;
        }
        return CallStep::more;
    }

    CallStep before_arguments(char byte) {
        if (byte == '{') {
            const std::string_view fence = "```json";
            while (!header_.empty() && space(header_.back())) header_.pop_back();
            if (header_.size() > fence.size() &&
                header_.compare(header_.size() - fence.size(), fence.size(), fence) == 0) {
                fenced_ = true;
                name_ = header_.substr(0, header_.size() - fence.size());
            } else if (!header_.empty()) {
                return CallStep::reject;
            }
            return begin();
        }
        if (header_.empty() && space(byte)) return CallStep::more;
        header_ += byte;
        return header_.size() > longest_call_name ? CallStep::reject : CallStep::more;
    }

    CallStep begin() {
        const auto trim = [](std::string& text) {
            while (!text.empty() && space(text.back())) text.pop_back();
            text.erase(0, std::min(text.find_first_not_of(" \t\r\n"), text.size()));
        };
        trim(name_);
        trim(id_);
        if (separator_.find("argument") != std::string::npos) {  // Kimi: functions.NAME:0 is the call's id
            id_ = name_;
            if (const size_t colon = name_.rfind(':'); colon != std::string::npos) name_.resize(colon);
            if (name_.rfind("functions.", 0) == 0) name_.erase(0, 10);
        }
        if (!call_name_valid(name_)) return CallStep::reject;
        events_.begin_call(name_, id_);
        at_ = At::arguments;
        return feed('{');
    }

    void close() {
        std::string rest;
        stream_.close(rest);
        events_.arguments(rest);
        events_.end_call(false, kind, raw);
    }

    std::string separator_, id_separator_, header_, name_, id_;
    At at_ = At::header;
    bool in_id_ = false, fenced_ = false;
    int ticks_ = 0;
    JsonStream stream_;
};

}  // namespace

bool call_name_valid(std::string_view name) {
    if (name.empty() || name.size() > longest_call_name) return false;
    for (char byte : name) {
        const bool fine = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                          (byte >= '0' && byte <= '9') ||
                          std::string_view("_-.:/").find(byte) != std::string_view::npos ||
                          static_cast<unsigned char>(byte) >= 0x80;
        if (!fine) return false;
    }
    return true;
}

std::unique_ptr<CallReader> json_calls(AnswerEvents& events, const ToolTypes& tools, bool untagged) {
    return std::make_unique<JsonCalls>(events, tools, untagged);
}

std::unique_ptr<CallReader> named_call(AnswerEvents& events, const ToolTypes& tools,
                                       const AnswerFormat& format) {
    return std::make_unique<NamedCall>(events, tools, format.separator, format.id_separator);
}

std::unique_ptr<CallReader> function_call(AnswerEvents& events, const ToolTypes& tools) {
    return std::make_unique<NamedCall>(events, tools, ">", "");
}

}  // namespace coterie::text
