// Finds the first of some stop strings in a text that arrives in pieces. Holds back just what may be the
// beginning of one. How the text is cut changes nothing: the stop string that is complete first wins, and of
// those the longest.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace coterie {

class StopMatcher {
  public:
    // Empty stop strings are ignored.
    explicit StopMatcher(std::vector<std::string> stops);

    // The text that is certain not to belong to a stop string. After a match: what stood before it, then
    // nothing more.
    std::string push(std::string_view text);
    // At the end: what was held back.
    std::string flush();
    bool matched() const { return matched_ >= 0; }
    const std::string& match() const { return stops_[size_t(matched_)]; }

  private:
    // Knuth, Morris, Pratt: for each stop string and each n, the longest proper prefix that also ends its
    // first n bytes.
    std::vector<std::string> stops_;
    std::vector<std::vector<size_t>> borders_;
    std::vector<size_t> reached_;  // bytes of each stop string with which the text ends
    std::string held_;             // the end of the text: as long as the greatest of reached_
    int matched_ = -1;
};

}  // namespace coterie
