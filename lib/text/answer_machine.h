// What both kinds of answer machines share: bytes in, events out. One machine reads families that put tags
// into a text; the other reads gpt-oss's channels.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "text/answer.h"
#include "text/answer_events.h"
#include "text/answer_tools.h"

namespace coterie::text {

class AnswerMachine {
  public:
    AnswerMachine(AnswerFormat format, AnswerOptions options)
        : format_(std::move(format)),
          options_(std::move(options)),
          tools_(options_.tools_json),
          events_(options_.whole_calls, options_.id_seed) {}
    AnswerMachine(const AnswerMachine&) = delete;
    AnswerMachine& operator=(const AnswerMachine&) = delete;
    virtual ~AnswerMachine() = default;

    virtual void byte(char byte) = 0;
    virtual void finish() = 0;
    virtual bool reasoning() const = 0;
    AnswerEvents& events() { return events_; }
    bool finished = false;

  protected:
    AnswerFormat format_;
    AnswerOptions options_;
    ToolTypes tools_;
    AnswerEvents events_;
};

std::unique_ptr<AnswerMachine> tagged_machine(AnswerFormat format, AnswerOptions options);
std::unique_ptr<AnswerMachine> harmony_machine(AnswerFormat format, AnswerOptions options);

}  // namespace coterie::text
