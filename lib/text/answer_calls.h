// Readers of one call, or of a list of calls, from the first byte after the opening tag. Bytes go in one at a
// time; call events come out through AnswerEvents. A reader begins a call only when it is sure that it is
// one; until then it can still reject, and the text is content. The closing tag is not its business.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer.h"
#include "text/answer_events.h"
#include "text/answer_json.h"
#include "text/answer_tools.h"

namespace coterie::text {

enum class CallStep : uint8_t {
    more,
    call_done,  // a call has ended with this byte; another may follow
    done,       // nothing more to read here
    back,       // done before this byte
    reject,     // no call, or no further call: what was read since the last call's end is text
    broken,     // in the middle of a call this byte makes no sense; the call has been closed before it
};

class CallReader {
  public:
    CallReader(AnswerEvents& events, const ToolTypes& tools) : events_(events), tools_(tools) {}
    CallReader(const CallReader&) = delete;
    CallReader& operator=(const CallReader&) = delete;
    virtual ~CallReader() = default;
    virtual CallStep feed(char byte) = 0;
    // The answer ends here: reject, or broken with the call closed, or done.
    virtual CallStep finish() = 0;
    std::string raw;  // the text of the call under way, for a broken call that was held back
    AnswerEvent::Kind kind = AnswerEvent::Kind::content;  // where the call stood
    std::string unread;  // after `broken`: bytes before the current one that are text again

  protected:
    AnswerEvents& events_;
    const ToolTypes& tools_;
};

// `untagged`: nothing but the tools' names tells that it is a call.
std::unique_ptr<CallReader> json_calls(AnswerEvents& events, const ToolTypes& tools, bool untagged);
std::unique_ptr<CallReader> named_call(AnswerEvents& events, const ToolTypes& tools,
                                       const AnswerFormat& format);
// Reads on after `<function=`.
std::unique_ptr<CallReader> function_call(AnswerEvents& events, const ToolTypes& tools);
std::unique_ptr<CallReader> xml_call(AnswerEvents& events, const ToolTypes& tools, const AnswerFormat& format,
                                     bool function_opened);
std::unique_ptr<CallReader> python_calls(AnswerEvents& events, const ToolTypes& tools, bool untagged);
std::unique_ptr<CallReader> gemma_call(AnswerEvents& events, const ToolTypes& tools);

bool call_name_valid(std::string_view name);
constexpr size_t longest_call_name = 256;
constexpr size_t longest_undecided_call = 65536;  // bytes read before a call must have shown its name

}  // namespace coterie::text
