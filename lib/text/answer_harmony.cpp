// The machine for gpt-oss's channels: messages of a header and a body,
// <|start|>assistant<|channel|>final<|message|>... The prompt ends with <|start|>assistant, so the answer
// begins inside a header; one that doesn't is plain content. A body with a recipient (to=functions.f) is a
// call; the analysis channel is reasoning; all else is content.
#include "text/answer_calls.h"
#include "text/answer_machine.h"

namespace coterie::text {
namespace {

using Kind = AnswerEvent::Kind;
constexpr size_t longest_header = 512;
constexpr std::string_view start_tag = "<|start|>", channel_tag = "<|channel|>", message_tag = "<|message|>";
constexpr std::string_view tags[] = {start_tag, channel_tag, message_tag, "<|constrain|>",
                                     "<|end|>", "<|call|>",  "<|return|>"};

bool space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

class HarmonyMachine final : public AnswerMachine {
  public:
    HarmonyMachine(AnswerFormat format, AnswerOptions options)
        : AnswerMachine(std::move(format), std::move(options)) {}

    void byte(char byte) override {
        held_ += byte;
        while (!held_.empty()) {
            bool partial = false;
            for (std::string_view tag : tags) {
                if (tag == held_) return act(std::exchange(held_, {}));
                partial = partial || tag.substr(0, held_.size()) == held_;
            }
            if (partial) return;
            text(held_.front());
            held_.erase(0, 1);
        }
    }

    void finish() override {
        for (char byte : std::exchange(held_, {})) text(byte);
        // A header that never became a message: if a tag announced it, its words are markup too.
        if (in_header_ && !after_end_ && !announced_) header_to_content();
        end_call(false);
        events_.finish();
    }

    bool reasoning() const override { return !in_header_ && kind_ == Kind::reasoning; }

  private:
    void act(const std::string& tag) {
        if (tag == message_tag) {
            if (in_header_) open_body();
            return;
        }
        if (in_header_ && (tag == channel_tag || tag == "<|constrain|>")) {
            header_ += tag;
            announced_ = true;
            return;
        }
        close_body();
        in_header_ = true;
        after_end_ = tag != start_tag && tag != channel_tag;
        announced_ = !after_end_;
        header_ = tag == channel_tag ? tag : std::string();
    }

    void text(char byte) {
        if (!in_header_) return body(byte);
        header_ += byte;
        // Where no header was announced by a tag only white space and a recipient can stand.
        const size_t from = header_.find_first_not_of(" \t\r\n");
        const std::string_view word =
            from == std::string::npos ? std::string_view() : std::string_view(header_).substr(from);
        constexpr std::string_view recipient = "to=";
        const bool header_like = announced_ || word.substr(0, 3) == recipient.substr(0, word.size());
        if (!header_like || header_.size() > longest_header) header_to_content();
    }

    void header_to_content() {
        const std::string header = std::exchange(header_, {});
        in_header_ = false;
        kind_ = Kind::content;
        name_.clear();
        for (char byte : header) body(byte);
    }

    static std::string word_after(const std::string& header, std::string_view mark) {
        const size_t at = header.find(mark);
        if (at == std::string::npos) return {};
        size_t end = at + mark.size();
        while (end < header.size() && !space(header[end]) && header[end] != '<') ++end;
        return header.substr(at + mark.size(), end - at - mark.size());
    }

    void open_body() {
        const std::string channel = word_after(header_, channel_tag);
        std::string recipient = word_after(header_, "to=");
        raw_.clear();
        in_header_ = false;
        events_.markup();
        kind_ = channel == "analysis" ? Kind::reasoning : Kind::content;
        name_.clear();
        if (!recipient.empty() && options_.tools) {
            constexpr std::string_view functions = "functions.";
            const bool ours = recipient.rfind(functions, 0) == 0;
            if (ours) recipient.erase(0, functions.size());
            // Tools the caller didn't bring (browser, python) run inside the model's thoughts.
            if ((ours || tools_.known(recipient)) && call_name_valid(recipient))
                name_ = recipient;
            else
                kind_ = Kind::reasoning;
        }
        header_.clear();
        stream_ = JsonStream();
        begun_ = false;
    }

    void body(char byte) {
        if (name_.empty()) return events_.text(kind_, {&byte, 1});
        raw_ += byte;
        if (!begun_) {
            if (space(byte)) return;
            if (byte != '{') {  // not JSON: text after all
                name_.clear();
                for (char each : std::exchange(raw_, {})) body(each);
                return;
            }
            begun_ = true;
            events_.begin_call(name_, {});
        }
        std::string piece;
        const auto step = stream_.feed(byte, piece);
        events_.arguments(piece);
        if (step == JsonStream::Step::more) return;
        if (step == JsonStream::Step::done) {
            events_.end_call();
        } else {
            raw_.pop_back();
            end_call(false);
            kind_ = Kind::content;
            events_.text(kind_, {&byte, 1});
        }
        name_.clear();
    }

    void end_call(bool complete) {
        if (name_.empty()) return;
        if (begun_) {
            std::string rest;
            stream_.close(rest);
            events_.arguments(rest);
            events_.end_call(complete, Kind::content, raw_);
        } else {  // a call without a body has no arguments
            events_.begin_call(name_, {});
            events_.arguments("{}");
            events_.end_call();
        }
        name_.clear();
    }

    void close_body() {
        if (in_header_) return;
        end_call(false);
        events_.markup();
    }

    std::string held_, header_, raw_, name_;
    bool in_header_ = true;
    bool after_end_ = false;  // between messages
    bool announced_ =
        false;  // a tag says that this is a header; the first one continues the prompt's <|start|>assistant
    bool begun_ = false;
    Kind kind_ = Kind::content;
    JsonStream stream_;
};

}  // namespace

std::unique_ptr<AnswerMachine> harmony_machine(AnswerFormat format, AnswerOptions options) {
    return std::make_unique<HarmonyMachine>(std::move(format), std::move(options));
}

}  // namespace coterie::text
