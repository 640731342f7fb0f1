// Collects the events of one answer: joins text of a kind, keeps code points whole, trims white space next to
// markup, numbers calls and gives them ids. Holding calls back until they are complete (whole_calls) happens
// here as well.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/answer.h"

namespace coterie::text {

class AnswerEvents {
  public:
    AnswerEvents(bool whole_calls, uint64_t id_seed) : whole_calls_(whole_calls), id_seed_(id_seed) {}

    void text(AnswerEvent::Kind kind, std::string_view bytes);  // reasoning or content
    // Here was a tag: white space next to it goes, but for one side's where text of a kind stands on both
    // sides.
    void markup();

    void begin_call(std::string_view name, std::string_view id);
    void arguments(std::string_view piece);
    // `raw`: what the call looked like, which becomes text of its kind if the call is incomplete and was held
    // back.
    void end_call(bool complete, AnswerEvent::Kind kind, std::string_view raw);
    void end_call() { end_call(true, AnswerEvent::Kind::content, {}); }
    bool in_call() const { return in_call_; }
    int calls() const { return calls_; }

    void take(std::vector<AnswerEvent>& events);  // what is ready
    void finish();                                // nothing will follow

  private:
    void add(AnswerEvent::Kind kind, std::string_view bytes);
    void flush_partial();

    std::vector<AnswerEvent> ready_, held_call_;
    std::string space_;    // white space that is dropped if markup follows
    std::string gap_;      // white space around markup, in case that text of the same kind goes on behind it
    std::string partial_;  // the begun code point
    AnswerEvent::Kind kind_ = AnswerEvent::Kind::content;
    bool gap_closed_ = false;  // the white space before the markup is the gap, not that behind it
    bool skip_space_ = false, said_ = false, any_content_ = false;
    bool whole_calls_ = false, in_call_ = false;
    uint64_t id_seed_ = 0;
    int calls_ = 0;
};

}  // namespace coterie::text
