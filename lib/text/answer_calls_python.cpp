// Calls in Python's notation: [f(a=1), g(b="x")] and f.call(a=1). A call is read whole, then converted: its
// values can be nested, and none is complete before its closing bracket.
#include "text/answer_calls.h"

namespace coterie::text {
namespace {

bool space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}
bool name_byte(char byte) {
    return call_name_valid({&byte, 1}) && byte != ':' && byte != '/' && byte != '-';
}

class PythonCalls final : public CallReader {
  public:
    PythonCalls(AnswerEvents& events, const ToolTypes& tools, bool untagged)
        : CallReader(events, tools), untagged_(untagged) {}

    CallStep feed(char byte) override {
        if (raw.size() > longest_undecided_call * 16) return CallStep::reject;
        switch (at_) {
            case At::start:
                if (space(byte)) return CallStep::more;
                if (byte == '[' && !list_ && !any_) {
                    list_ = true;
                    return CallStep::more;
                }
                if (list_ && byte == ']' && any_) return CallStep::done;
                if (!name_byte(byte) || (byte >= '0' && byte <= '9')) return CallStep::reject;
                name_ = byte;
                at_ = At::name;
                return CallStep::more;
            case At::name:
                if (byte == '(') {
                    at_ = At::arguments;
                    source_.clear();
                    depth_ = 0;
                    quote_ = 0;
                    escaped_ = false;
                    return CallStep::more;
                }
                if (!name_byte(byte) || name_.size() > longest_call_name) return CallStep::reject;
                name_ += byte;
                return CallStep::more;
            case At::arguments:
                return arguments(byte);
            case At::after:
                if (list_ && byte == ']') return CallStep::done;
                if (space(byte)) return CallStep::more;
                if (list_ ? byte == ',' : byte == ';') {
                    at_ = At::start;
                    return CallStep::more;
                }
                return CallStep::back;
        }
        return CallStep::reject;
    }

    CallStep finish() override { return at_ == At::after ? CallStep::done : CallStep::reject; }

  private:
    enum class At : uint8_t { start, name, arguments, after };

    CallStep arguments(char byte) {
        if (quote_ != 0) {
            if (escaped_)
                escaped_ = false;
            else if (byte == '\\')
                escaped_ = true;
            else if (byte == quote_)
                quote_ = 0;
        } else if (byte == '"' || byte == '\'') {
            quote_ = byte;
        } else if (byte == '(' || byte == '[' || byte == '{') {
            ++depth_;
        } else if (byte == ')' && depth_ == 0) {
            return convert() ? CallStep::call_done : CallStep::reject;
        } else if (byte == ')' || byte == ']' || byte == '}') {
            if (depth_-- == 0) return CallStep::reject;
        }
        source_ += byte;
        return CallStep::more;
    }

    bool convert() {
        constexpr std::string_view call = ".call";
        if (name_.size() > call.size() && name_.compare(name_.size() - call.size(), call.size(), call) == 0)
            name_.resize(name_.size() - call.size());
        if (untagged_ && !tools_.known(name_)) return false;
        std::string json = "{";
        size_t at = 0;
        const auto skip = [&] {
            while (at < source_.size() && space(source_[at])) ++at;
        };
        for (skip(); at < source_.size(); skip()) {
            size_t end = at;
            while (end < source_.size() && name_byte(source_[end])) ++end;
            if (end == at) return false;
            if (json.size() > 1) json += ',';
            json += json_quoted(std::string_view(source_).substr(at, end - at));
            at = end;
            skip();
            if (at >= source_.size() || source_[at] != '=') return false;
            ++at;
            json += ':';
            if (!python_literal(source_, at, json)) return false;
            skip();
            if (at < source_.size() && source_[at++] != ',') return false;
        }
        json += '}';
        events_.begin_call(name_, {});
        events_.arguments(json);
        events_.end_call();
        any_ = true;
        at_ = At::after;
        return true;
    }

    bool untagged_, list_ = false, any_ = false, escaped_ = false;
    At at_ = At::start;
    std::string name_, source_;
    int depth_ = 0;
    char quote_ = 0;
};

}  // namespace

std::unique_ptr<CallReader> python_calls(AnswerEvents& events, const ToolTypes& tools, bool untagged) {
    return std::make_unique<PythonCalls>(events, tools, untagged);
}

}  // namespace coterie::text
