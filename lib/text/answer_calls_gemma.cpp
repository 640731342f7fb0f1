// Calls in Gemma 4's notation: call:f{a:1,b:<|"|>text<|"|>,c:[true,{d:null}]}. Keys are bare or quoted like
// texts. A call is read whole, then converted, as its values nest.

#include "base/json.h"
#include "text/answer_calls.h"

namespace coterie::text {
namespace {

constexpr std::string_view quote = "<|\"|>", head = "call:";
constexpr int deepest_value = 64;

bool space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

class GemmaCall final : public CallReader {
  public:
    GemmaCall(AnswerEvents& events, const ToolTypes& tools) : CallReader(events, tools) {}

    CallStep feed(char byte) override {
        source_ += byte;
        if (source_.size() > longest_undecided_call * 16) return CallStep::reject;
        if (source_.size() <= head.size())
            return head.substr(0, source_.size()) == source_ ? CallStep::more : CallStep::reject;
        if (body_ == 0) {
            if (byte == '{') {
                name_ = source_.substr(head.size(), source_.size() - head.size() - 1);
                body_ = source_.size() - 1;
                depth_ = 1;
                return call_name_valid(name_) ? CallStep::more : CallStep::reject;
            }
            return source_.size() > longest_call_name ? CallStep::reject : CallStep::more;
        }
        if (std::string_view(source_).substr(body_ + 1).size() >= quote.size() &&
            source_.compare(source_.size() - quote.size(), quote.size(), quote) == 0)
            quoted_ = !quoted_;
        if (quoted_) return CallStep::more;
        if (byte == '{' || byte == '[') ++depth_;
        if ((byte != '}' && byte != ']') || --depth_ > 0) return CallStep::more;
        std::string json;
        size_t at = body_;
        if (!value(at, json, 0, 0) || at != source_.size()) return CallStep::reject;
        events_.begin_call(name_, {});
        events_.arguments(json);
        events_.end_call();
        return CallStep::done;
    }

    CallStep finish() override { return CallStep::reject; }

  private:
    char at_or_end(size_t at) const { return at < source_.size() ? source_[at] : '\0'; }
    void skip(size_t& at) const {
        while (space(at_or_end(at))) ++at;
    }

    bool text(size_t& at, std::string& out) const {
        const size_t end = source_.find(quote, at + quote.size());
        if (end == std::string::npos) return false;
        out += json_quoted(std::string_view(source_).substr(at + quote.size(), end - at - quote.size()));
        at = end + quote.size();
        return true;
    }

    // `types`: what the parameter may be, for values without quotes.
    bool value(size_t& at, std::string& out, uint8_t types, int depth) const {
        skip(at);
        if (depth > deepest_value) return false;
        if (source_.compare(at, quote.size(), quote) == 0) return text(at, out);
        const char open = at_or_end(at);
        if (open == '{' || open == '[') return sequence(at, out, depth);
        const size_t end = std::min(source_.find_first_of(",}]", at), source_.size());
        if (end == at) return false;
        out += typed_value(std::string_view(source_).substr(at, end - at), types);
        at = end;
        return true;
    }

    bool sequence(size_t& at, std::string& out, int depth) const {
        const bool dict = source_[at] == '{';
        const char close = dict ? '}' : ']';
        out += source_[at++];
        for (bool first = true;; first = false) {
            skip(at);
            if (at_or_end(at) == close) break;
            if (!first) out += ',';
            uint8_t types = 0;
            if (dict) {
                std::string key;
                if (source_.compare(at, quote.size(), quote) == 0) {
                    if (!text(at, out)) return false;
                } else {
                    const size_t colon = source_.find_first_of(":,}", at);
                    if (colon == std::string::npos || colon == at) return false;
                    key = source_.substr(at, colon - at);
                    out += json_quoted(key);
                    at = colon;
                }
                skip(at);
                if (at_or_end(at) != ':') return false;
                ++at;
                out += ':';
                if (depth == 0) types = tools_.types(name_, key);
            }
            if (!value(at, out, types, depth + 1)) return false;
            skip(at);
            if (at_or_end(at) == ',') {
                ++at;
                continue;
            }
            if (at_or_end(at) != close) return false;
            break;
        }
        ++at;
        out += close;
        return true;
    }

    std::string source_, name_;
    size_t body_ = 0;
    int depth_ = 0;
    bool quoted_ = false;
};

}  // namespace

std::unique_ptr<CallReader> gemma_call(AnswerEvents& events, const ToolTypes& tools) {
    return std::make_unique<GemmaCall>(events, tools);
}

}  // namespace coterie::text
