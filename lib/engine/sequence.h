// A generation as the scheduler sees it: its tokens, how many of them are computed, and the pages and slot
// that hold them. Invariant: [0, computed) of the tokens are computed and lie in the pages; page_ids are the
// ids of the first pages, all of them full and published.
#pragma once
#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "engine/generation.h"
#include "sample/stop_matcher.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace coterie {

struct Sequence {
    using Clock = std::chrono::steady_clock;

    std::shared_ptr<Generation> generation;
    GenerationRequest request;
    Sampler sampler;
    text::Detokenizer detokenizer;
    StopMatcher stop;
    std::vector<int32_t> tokens;  // prompt and answer
    int64_t prompt = 0;           // how many of them are the prompt
    int64_t answer_begin = 0;     // where the answer begins: before the prompt's end, for a fork
    int64_t computed = 0;         // how many the pages and the state hold
    int64_t generated = 0;
    int64_t read = 0;  // of a reading: rows before this one need not be handed over
    std::vector<int32_t> pages;
    std::vector<uint64_t> page_ids;
    std::vector<int64_t> message_ends;  // of the prompt, rounded down to pages: where states are kept
    uint64_t answer_checkpoint = 0;     // page id of the last one made while decoding
    const Sequence* origin = nullptr;   // waits for this one's prompt, to share it
    uint64_t number = 0;                // order of arrival
    int64_t filled_at = 0;              // the step that last had prompt rows of it
    std::vector<int32_t> drafts;        // guessed next tokens, in the step that runs
    int32_t most_drafts = 0;            // per step; 0: none
    int32_t next_drafts = 0;            // in its next step, by how good the last ones were
    int64_t repeated = 0;               // tokens before the newest whose state was rolled back
    int32_t index = -1;                 // row of the page table, and state slot; -1: not running
    bool done = false;
    GenerationStatistics statistics;
    Clock::time_point submitted = Clock::now(), started{}, first_token{};

    Sequence(std::shared_ptr<Generation> g, GenerationRequest r, const text::Tokenizer& tokenizer)
        : generation(std::move(g)),
          request(std::move(r)),
          sampler(request.sampling),
          detokenizer(tokenizer, request.special_text),
          stop(request.stop),
          tokens(std::move(request.prompt)),
          prompt(int64_t(tokens.size())),
          answer_begin(prompt),
          read(request.reading ? request.reading->first : 0) {
        for (const int32_t token : tokens) sampler.accept(token);
    }

    int64_t pending() const { return int64_t(tokens.size()) - computed; }
    // Who goes first: the higher priority, then who came first.
    bool before(const Sequence& other) const {
        return request.priority != other.request.priority ? request.priority > other.request.priority
                                                          : number < other.number;
    }
    // All of it but the newest token has been computed before.
    bool decodes() const { return pending() == 1 + repeated; }
    bool running() const { return index >= 0 && !done; }
};

}  // namespace coterie
