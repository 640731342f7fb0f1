// Calls whose arguments lie between tags, one parameter after the other, their values unquoted. Values of a
// parameter that is only a string stream; others wait for their end, to be converted to their type. A closing
// tag counts only if what follows it belongs to the call, so a value may contain it.
#include <utility>

#include "text/answer_calls.h"

namespace coterie::text {
namespace {

bool space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

class XmlCall final : public CallReader {
  public:
    XmlCall(AnswerEvents& events, const ToolTypes& tools, const AnswerFormat& format, bool function_opened)
        : CallReader(events, tools), markup_(format.xml), call_close_(format.call_close) {
        at_ = function_opened || markup_.function_open.empty() ? At::name : At::function;
    }

    CallStep feed(char byte) override {
        if (raw.size() > longest_undecided_call && !events_.in_call()) return CallStep::reject;
        switch (at_) {
            case At::function:
                return function(byte);
            case At::name:
                return name(byte);
            case At::between:
                return between(byte);
            case At::key:
                return key(byte);
            case At::value_open:
                return value_open(byte);
            case At::value:
                return value(byte);
        }
        return CallStep::reject;
    }

    CallStep finish() override {
        if (!events_.in_call()) return CallStep::reject;
        close();
        return CallStep::broken;
    }

  private:
    enum class At : uint8_t { function, name, between, key, value_open, value };
    enum class Match : uint8_t { none, partial, parameter, end };

    static bool begins(std::string_view text, std::string_view prefix) {
        return text.substr(0, prefix.size()) == prefix;
    }

    CallStep function(char byte) {
        if (held_.empty() && space(byte)) return CallStep::more;
        held_ += byte;
        if (!begins(markup_.function_open, held_)) return CallStep::reject;
        if (held_.size() == markup_.function_open.size()) {
            held_.clear();
            at_ = At::name;
        }
        return CallStep::more;
    }

    CallStep name(char byte) {
        if (markup_.name_end.empty()) {  // GLM: the name ends where white space or a tag begins
            if (space(byte) && name_.empty()) return CallStep::more;
            if (space(byte) || byte == '<') {
                if (!call_name_valid(name_)) return CallStep::reject;
                at_ = At::between;
                return between(byte);
            }
            name_ += byte;
        } else {
            name_ += byte;
            const size_t tail = markup_.name_end.size();
            if (name_.size() > tail && name_.compare(name_.size() - tail, tail, markup_.name_end) == 0) {
                name_.resize(name_.size() - tail);
                at_ = At::between;
                return call_name_valid(name_) ? CallStep::more : CallStep::reject;
            }
        }
        return name_.size() > longest_call_name || byte == '\n' ? CallStep::reject : CallStep::more;
    }

    void begin() {
        if (!std::exchange(begun_, true)) events_.begin_call(name_, {});
    }

    CallStep between(char byte) {
        if (held_.empty() && space(byte)) return CallStep::more;
        held_ += byte;
        if (held_ == markup_.parameter_open) {
            begin();
            held_.clear();
            key_.clear();
            at_ = At::key;
            return CallStep::more;
        }
        if (held_ == markup_.function_close || (held_ == call_close_ && begun_)) {
            end();
            return CallStep::done;
        }
        if (begins(markup_.parameter_open, held_) || begins(markup_.function_close, held_) ||
            (begins(call_close_, held_) && begun_))
            return CallStep::more;
        if (!begun_) return CallStep::reject;
        return broken(held_.size() - 1);
    }

    CallStep key(char byte) {
        key_ += byte;
        const size_t tail = markup_.key_end.size();
        if (key_.size() >= tail && key_.compare(key_.size() - tail, tail, markup_.key_end) == 0) {
            key_.resize(key_.size() - tail);
            types_ = 0;
            if (markup_.string_attribute) {
                const size_t attribute = key_.find("\" string=\"");
                if (attribute != std::string::npos) {
                    types_ = key_.substr(attribute + 10) == "true" ? type_string : 0;
                    key_.resize(attribute);
                }
            }
            if (types_ == 0) types_ = tools_.types(name_, key_);
            at_ = markup_.value_open.empty() ? At::value : At::value_open;
            first_ = true;
            value_.clear();
            open_value();
            return CallStep::more;
        }
        if (key_.size() > longest_call_name) return broken(0);
        return CallStep::more;
    }

    CallStep value_open(char byte) {
        if (held_.empty() && space(byte)) return CallStep::more;
        held_ += byte;
        if (!begins(markup_.value_open, held_)) return broken(held_.size() - 1);
        if (held_.size() == markup_.value_open.size()) {
            held_.clear();
            at_ = At::value;
        }
        return CallStep::more;
    }

    // Whether `held_` is the end of the value together with the tag that must follow it.
    Match match(std::string_view held) const {
        size_t at = 0;
        const auto literal = [&](std::string_view tag) {
            const std::string_view rest = held.substr(at);
            if (rest.size() >= tag.size() ? begins(rest, tag) : begins(tag, rest)) {
                at = std::min(held.size(), at + tag.size());
                return true;
            }
            return false;
        };
        const auto spaces = [&] {
            while (at < held.size() && space(held[at])) ++at;
        };
        const auto whole = [&](std::string_view tag) { return begins(held.substr(at), tag); };
        if (markup_.newlines && held.front() == '\n') ++at;
        if (at == held.size()) return Match::partial;
        const size_t start = at;
        if (literal(markup_.value_close)) {
            if (at == held.size() && held.size() < start + markup_.value_close.size()) return Match::partial;
            spaces();
            if (at == held.size()) return Match::partial;
            if (whole(markup_.parameter_open)) return Match::parameter;
            if (whole(markup_.function_close) || (!call_close_.empty() && whole(call_close_)))
                return Match::end;
            return literal(markup_.parameter_open) || literal(markup_.function_close) || literal(call_close_)
                       ? Match::partial
                       : Match::none;
        }
        // A forgotten closing tag: the function's and the call's closing tags follow at once.
        at = start;
        if (!markup_.newlines || start == 0 || markup_.function_close == call_close_ ||
            !literal(markup_.function_close))
            return Match::none;
        if (at == held.size() && held.size() < start + markup_.function_close.size()) return Match::partial;
        spaces();
        if (at == held.size()) return Match::partial;
        if (whole(call_close_)) return Match::end;
        return literal(call_close_) ? Match::partial : Match::none;
    }

    CallStep value(char byte) {
        if (std::exchange(first_, false) && markup_.newlines && byte == '\n') return CallStep::more;
        held_ += byte;
        while (!held_.empty()) {
            const Match found = match(held_);
            if (found == Match::partial) {
                // Much white space after what only looks like a closing tag is text.
                if (held_.size() < 512) return CallStep::more;
            } else if (found != Match::none) {
                held_.clear();
                close_value();
                if (found == Match::end) {
                    end();
                    return CallStep::done;
                }
                key_.clear();
                at_ = At::key;
                return CallStep::more;
            }
            value_byte(held_.front());
            held_.erase(0, 1);
        }
        return CallStep::more;
    }

    void open_value() {
        std::string piece = any_ ? "," : "{";
        any_ = true;
        piece += json_quoted(key_) + ":";
        if (types_ == type_string) piece += '"';
        events_.arguments(piece);
        in_value_ = true;
        escaper_ = JsonEscaper();
    }

    void value_byte(char byte) {
        if (types_ != type_string) {
            value_ += byte;
            return;
        }
        std::string piece;
        escaper_.feed(byte, piece);
        events_.arguments(piece);
    }

    void close_value() {
        std::string piece;
        if (types_ == type_string) {
            escaper_.flush(piece);
            piece += '"';
        } else {
            piece = typed_value(value_, types_);
        }
        events_.arguments(piece);
        in_value_ = false;
    }

    void end() {
        begin();
        events_.arguments(any_ ? "}" : "{}");
        events_.end_call();
    }

    // `count`: bytes of held_ before the current one that no longer belong to the call; they are lost to it,
    // not to the answer: the caller gets them back through `unread`.
    CallStep broken(size_t count) {
        unread.assign(held_, 0, count);
        held_.clear();
        close();
        return CallStep::broken;
    }

    void close() {
        if (in_value_) {
            for (char byte : held_) value_byte(byte);
            held_.clear();
            close_value();
        }
        if (!any_) events_.arguments("{");
        events_.arguments("}");
        events_.end_call(false, kind, raw);
    }

    const XmlMarkup& markup_;
    const std::string& call_close_;
    At at_ = At::function;
    std::string held_, name_, key_, value_;
    uint8_t types_ = 0;
    bool any_ = false, begun_ = false, first_ = false, in_value_ = false;
    JsonEscaper escaper_;
};

}  // namespace

std::unique_ptr<CallReader> xml_call(AnswerEvents& events, const ToolTypes& tools, const AnswerFormat& format,
                                     bool function_opened) {
    return std::make_unique<XmlCall>(events, tools, format, function_opened);
}

}  // namespace coterie::text
