// Golden logits (tests/data/golden) and a way to run one sequence on a device in chunks, for the model tests.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "execute/runner.h"

namespace golden {

struct Case {
    std::string name, path;
    std::vector<int32_t> prompt, positions, long_prompt, long_positions, greedy;
    std::vector<double> greedy_margin;
    int64_t vocabulary = 0;
    std::vector<double> logits, long_logits, truth;  // [positions, vocabulary]; empty when the case has none
};

// path under tests/data/golden, without ending.
Case load(const std::string& name);
// Every case of a folder ("" for the transformers ones in F32, "mxfp4", "llamacpp").
std::vector<std::string> names(const std::string& folder);

using DeviceMaker = std::unique_ptr<coterie::Device> (*)();
std::unique_ptr<coterie::Runner> make_runner(const std::string& path, DeviceMaker device,
                                             coterie::Type cache = coterie::Type::F32, int64_t tokens = 512);

// A sequence in slot 0 with pages in a scattered order.
class Sequence {
  public:
    explicit Sequence(coterie::Runner& runner, int32_t index = 0, int32_t sequences = 1);
    // Appends tokens in chunks of at most `chunk` and returns the logits of every position [tokens,
    // vocabulary].
    std::vector<float> append(const std::vector<int32_t>& tokens, int64_t chunk = 1 << 20);
    int32_t position() const { return position_; }
    // What comes next is appended there; a recurrent state must be put back by the caller.
    void rewind(int32_t position) { position_ = position; }
    std::vector<int32_t> pages() const;

  private:
    coterie::Runner& runner_;
    int32_t index_, sequences_, position_ = 0;
};

// Sum of squared differences over sum of squares.
double nmse(const std::vector<float>& got, const std::vector<double>& want);
// The rows of `logits` [*, vocabulary] at the given positions.
std::vector<float> rows_at(const std::vector<float>& logits, const std::vector<int32_t>& positions,
                           int64_t vocabulary);
int32_t argmax(const float* row, int64_t n);

}  // namespace golden
