// What guessed tokens gain or cost: texts answered with and without, at several numbers of streams.
#pragma once
#include "bench_streams.h"

namespace tool {

// text: a prompt to complete instead of the built-in ones; may be empty.
int bench_drafts(const BenchEngine& engine, const std::vector<int64_t>& drafts,
                 const std::vector<int64_t>& streams, int64_t answer, const std::string& text, int repeat,
                 bool json);

}  // namespace tool
