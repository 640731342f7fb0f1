// The machine for families that put tags into a text. In text it holds back what could become a tag that
// counts here; after an opening tag a CallReader takes the bytes, and what it rejects is read again as text.
#include <deque>

#include "text/answer_calls.h"
#include "text/answer_machine.h"

namespace coterie::text {
namespace {

using Kind = AnswerEvent::Kind;

bool space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

// Control tokens: they don't occur in prose, so they count wherever they are.
bool special(std::string_view tag) {
    return tag.rfind("<|", 0) == 0 || tag.rfind("<\xEF\xBD\x9C", 0) == 0 || tag.front() == '[';
}

const std::string general_open = "<tool_call>", general_close = "</tool_call>";

enum class Action : uint8_t { none, think_open, think_close, calls_open, call_open, function_open, drop };

class TaggedMachine final : public AnswerMachine {
  public:
    TaggedMachine(AnswerFormat format, AnswerOptions options)
        : AnswerMachine(std::move(format), std::move(options)) {
        kind_ = options_.thinking_open && !format_.think_open.empty() ? Kind::reasoning : Kind::content;
        // White space after the prompt's opening tag belongs to the tag.
        if (kind_ == Kind::reasoning) events_.markup();
        for (const std::string* tag : {&format_.think_open, &format_.think_close, &format_.calls_open,
                                       &format_.calls_close, &format_.call_open, &format_.call_close})
            note_first(*tag);
        for (const std::string& tag : format_.dropped) note_first(tag);
        function_open_ = format_.syntax == CallSyntax::llama ? "<function=" : format_.xml.function_open;
        // Only a tag that says `function` is enough to open a call by itself; others can open a further call.
        opens_alone_ = function_open_.find("function=") != std::string::npos;
        note_first(function_open_);
        note_first(general_open);
    }

    void byte(char byte) override {
        queue_.push_back(byte);
        drain();
    }

    void finish() override {
        // Every round settles at least one byte that was held back.
        for (;;) {
            if (awaits_) {
                awaits_ = false;
                act(std::exchange(held_, {}));
            } else if (reader_) {
                end_reader(reader_->finish(), {});
            } else if (opened_) {
                reject(std::exchange(raw_, {}), true);
            } else if (!held_.empty()) {
                const std::string held = std::exchange(held_, {});
                emit(held.front());
                queue_.insert(queue_.begin(), held.begin() + 1, held.end());
            } else {
                break;
            }
            drain();
        }
        events_.finish();
    }

    bool reasoning() const override { return kind_ == Kind::reasoning; }

  private:
    void note_first(const std::string& tag) {
        if (!tag.empty()) first_[static_cast<unsigned char>(tag.front())] = true;
    }

    void drain() {
        while (!queue_.empty()) {
            const char next = queue_.front();
            queue_.pop_front();
            if (reader_)
                read(next);
            else if (opened_)
                open(next);
            else
                scan(next);
        }
    }

    // --- text
    // -------------------------------------------------------------------------------------------------

    // What `text` would do here if it were whole, and whether it can still become a tag that does something.
    Action lookup(std::string_view text, bool& partial) const {
        Action found = Action::none;
        const auto consider = [&](const std::string& tag, Action action, bool counts) {
            if (!counts || tag.empty() || text.size() > tag.size() ||
                std::string_view(tag).substr(0, text.size()) != text)
                return;
            if (text.size() == tag.size())
                found = found == Action::none ? action : found;
            else
                partial = true;
        };
        const bool thinks = kind_ == Kind::reasoning;
        consider(format_.think_close, Action::think_close, thinks || !said_);
        consider(format_.think_open, Action::think_open, !said_);
        const bool calls = options_.tools && format_.syntax != CallSyntax::none;
        const auto opens = [&](const std::string& tag) {
            return calls && !tag.empty() && (!thinks || line_start_ || special(tag));
        };
        consider(format_.calls_open, Action::calls_open, opens(format_.calls_open));
        consider(format_.call_open, Action::call_open, opens(format_.call_open));
        consider(general_open, Action::call_open, opens(general_open));
        consider(function_open_, Action::function_open,
                 opens(function_open_) && (opens_alone_ ? line_start_ : after_call_));
        const bool closes = calls && (after_call_ || broken_);
        consider(format_.call_close, Action::drop, closes);
        consider(format_.calls_close, Action::drop, closes);
        consider(general_close, Action::drop, closes);
        for (const std::string& tag : format_.dropped) consider(tag, Action::drop, true);
        return found;
    }

    void scan(char next) {
        if (awaits_) {  // a tag inside a code span on this line: a backtick behind it makes it prose
            awaits_ = false;
            const std::string held = std::exchange(held_, {});
            queue_.push_front(next);
            if (next == '`')
                for (char byte : held) emit(byte);
            else
                act(held);
            return;
        }
        if (held_.empty() && !first_[static_cast<unsigned char>(next)]) {
            if (format_.syntax == CallSyntax::llama && may_begin_untagged(next)) return begin_untagged(next);
            return emit(next);
        }
        if (held_.empty() && format_.syntax == CallSyntax::llama && may_begin_untagged(next))
            return begin_untagged(next);
        held_ += next;
        while (!held_.empty()) {
            bool partial = false;
            const Action action = lookup(held_, partial);
            if (action != Action::none) {
                if (!code_span_ || special(held_)) return act(std::exchange(held_, {}));
                if (previous_ != '`') {
                    awaits_ = true;
                    return;
                }
                const std::string held = std::exchange(held_, {});
                for (char byte : held) emit(byte);
                return;
            }
            if (partial) return;
            emit(held_.front());
            held_.erase(0, 1);
        }
    }

    void emit(char byte) {
        events_.text(kind_, {&byte, 1});
        if (!space(byte)) {
            said_ = true;
            after_call_ = false;
        }
        // A code span is open after an odd number of backticks on the line; a fence's three are not a span.
        if (byte == '`') {
            ++ticks_;
            if (ticks_ == 1 || ticks_ == 3) code_span_ = !code_span_;
        } else {
            ticks_ = 0;
        }
        if (byte == '\n') {
            line_start_ = true;
            code_span_ = false;
        } else if (!space(byte)) {
            line_start_ = false;
        }
        previous_ = byte;
    }

    void new_text(Kind kind) {
        events_.markup();
        kind_ = kind;
        said_ = code_span_ = broken_ = false;
        line_start_ = true;
        ticks_ = 0;
        previous_ = '\n';
    }

    void act(const std::string& tag) {
        bool partial = false;
        switch (lookup(tag, partial)) {
            case Action::think_open:
                return new_text(Kind::reasoning);
            case Action::think_close:
                return new_text(Kind::content);
            case Action::calls_open:
            case Action::call_open:
            case Action::function_open:
                opened_ = true;
                opened_by_ = tag;
                raw_ = tag;
                return;
            case Action::drop:
                events_.markup();
                broken_ = false;
                return;
            case Action::none:
                return;
        }
    }

    // --- calls
    // ------------------------------------------------------------------------------------------------

    bool may_begin_untagged(char next) const {
        return options_.tools && kind_ == Kind::content && !said_ && !tried_untagged_ &&
               (next == '{' || next == '[');
    }

    void begin_untagged(char next) {
        tried_untagged_ = true;
        // Both notations begin with a bracket; what follows it decides.
        opened_ = true;
        opened_by_.clear();
        raw_ = next;
    }

    // After an opening tag: the first byte that isn't white space tells how the call is written.
    void open(char next) {
        if (space(next) && raw_.size() < 256) {
            raw_ += next;
            return;
        }
        if (opened_by_.empty()) {
            const bool json = raw_.front() == '{' || next == '{';
            return start(json ? json_calls(events_, tools_, true) : python_calls(events_, tools_, true), raw_,
                         next);
        }
        if (opened_by_ == general_open &&
            (format_.call_open != general_open || format_.syntax == CallSyntax::json)) {
            if (next == '{' || next == '[') return start(json_calls(events_, tools_, false), {}, next);
            if (next == '<' && format_.syntax == CallSyntax::json && !format_.xml.function_open.empty())
                return start(xml_call(events_, tools_, format_, false), {}, next);
            return reject(std::exchange(raw_, {}) + next, true);
        }
        if (opened_by_ == format_.calls_open && opened_by_ != format_.call_open) return open_in_section(next);
        if (opened_by_ == function_open_ && opened_by_ != format_.call_open) {
            return start(format_.syntax == CallSyntax::llama ? function_call(events_, tools_)
                                                             : xml_call(events_, tools_, format_, true),
                         {}, next);
        }
        if (format_.syntax == CallSyntax::llama) {  // <|python_tag|>
            if (next != '{') {
                // Code for an interpreter, unless it reads as a call of a tool.
                return start(python_calls(events_, tools_, false), {}, next);
            }
            return start(json_calls(events_, tools_, false), {}, next);
        }
        if (format_.syntax == CallSyntax::gemma) return start(gemma_call(events_, tools_), {}, next);
        if (format_.syntax == CallSyntax::python)
            return start(python_calls(events_, tools_, false), {}, next);
        if (next == '{' || next == '[') return start(json_calls(events_, tools_, false), {}, next);
        if (format_.syntax == CallSyntax::xml)
            return start(xml_call(events_, tools_, format_, false), {}, next);
        if (format_.syntax == CallSyntax::named) return start(named_call(events_, tools_, format_), {}, next);
        reject(std::exchange(raw_, {}) + next, true);
    }

    // Between the tag that opens the calls and the one that opens the first.
    void open_in_section(char next) {
        held_ += next;
        const std::string& tag = format_.call_open.empty() ? function_open_ : format_.call_open;
        const bool by_xml = format_.call_open.empty() && function_open_.empty();
        if (by_xml || tag.empty()) {
            held_.clear();
            return start(xml_call(events_, tools_, format_, false), {}, next);
        }
        if (std::string_view(tag).substr(0, held_.size()) != held_) {
            const std::string text = std::exchange(raw_, {}) + std::exchange(held_, {});
            return reject(text, true);
        }
        if (held_.size() < tag.size()) return;
        raw_ += std::exchange(held_, {});
        opened_by_ = tag;
    }

    // `read_already`: what the reader must see before `next`.
    void start(std::unique_ptr<CallReader> reader, std::string read_already, char next) {
        reader_ = std::move(reader);
        reader_->kind = kind_;
        opened_ = false;
        calls_before_ = events_.calls();
        for (char byte : read_already) reader_->feed(byte);
        reader_->raw = std::exchange(raw_, {});
        read(next);
    }

    void read(char next) {
        const CallStep step = reader_->feed(next);
        if (step == CallStep::more) {
            reader_->raw += next;
            return;
        }
        if (step == CallStep::call_done) {
            reader_->raw.clear();
            called();
            return;
        }
        end_reader(step, {&next, 1});
    }

    void called() {
        after_call_ = true;
        broken_ = false;
        line_start_ = true;
        code_span_ = false;
        previous_ = '\n';
    }

    void end_reader(CallStep step, std::string_view unread) {
        const std::unique_ptr<CallReader> reader = std::move(reader_);
        switch (step) {
            case CallStep::done:
                return called();
            case CallStep::back:
                called();
                queue_.insert(queue_.begin(), unread.begin(), unread.end());
                return;
            case CallStep::broken: {
                called();
                broken_ = true;
                std::string text = options_.whole_calls ? std::string() : reader->unread;
                text += unread;
                queue_.insert(queue_.begin(), text.begin(), text.end());
                return;
            }
            default:
                reject(reader->raw + std::string(unread), calls_before_ == events_.calls());
        }
    }

    // What was taken for a call is text. `with_tag`: the text begins with what opened it, which must not open
    // it again.
    void reject(const std::string& text, bool with_tag) {
        opened_ = false;
        // Code for an interpreter isn't a call, but its announcement is markup all the same.
        constexpr std::string_view python_tag = "<|python_tag|>";
        if (with_tag && text.compare(0, python_tag.size(), python_tag) == 0) {
            queue_.insert(queue_.begin(), text.begin() + python_tag.size(), text.end());
            return;
        }
        // Tags inside what wasn't a call are read again; endlessly many of them are not.
        reread_ += text.size();
        if (reread_ > most_reread) {
            for (char byte : text) emit(byte);
            return;
        }
        if (!with_tag) {
            queue_.insert(queue_.begin(), text.begin(), text.end());
            return;
        }
        emit(text.front());
        queue_.insert(queue_.begin(), text.begin() + 1, text.end());
    }

    std::deque<char> queue_;  // bytes to be read, the present one first
    Kind kind_ = Kind::content;
    std::string held_;  // what could become a tag
    bool awaits_ = false;
    bool said_ = false;       // the text of this kind has more than white space
    bool line_start_ = true;  // only white space since the last line feed
    bool code_span_ = false;  // inside `...`
    int ticks_ = 0;           // backticks in a row
    char previous_ = '\n';
    bool after_call_ = false, broken_ = false, tried_untagged_ = false;
    bool opened_ = false;  // after an opening tag, before the reader is chosen
    std::string opened_by_, raw_, function_open_;
    std::unique_ptr<CallReader> reader_;
    int calls_before_ = 0;
    size_t reread_ = 0;
    static constexpr size_t most_reread = size_t{16} << 20;
    bool opens_alone_ = false;
    bool first_[256] = {};
};

}  // namespace

std::unique_ptr<AnswerMachine> tagged_machine(AnswerFormat format, AnswerOptions options) {
    return std::make_unique<TaggedMachine>(std::move(format), std::move(options));
}

AnswerParser::AnswerParser(AnswerFormat format, AnswerOptions options)
    : machine_(format.harmony ? harmony_machine(std::move(format), std::move(options))
                              : tagged_machine(std::move(format), std::move(options))) {}
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;
AnswerParser::~AnswerParser() = default;

void AnswerParser::push(std::string_view text, std::vector<AnswerEvent>& events) {
    if (machine_->finished) return;
    for (char byte : text) machine_->byte(byte);
    machine_->events().take(events);
}

void AnswerParser::finish(std::vector<AnswerEvent>& events) {
    if (std::exchange(machine_->finished, true)) return;
    machine_->finish();
    machine_->events().take(events);
}

bool AnswerParser::reasoning() const {
    return machine_->reasoning();
}

}  // namespace coterie::text
