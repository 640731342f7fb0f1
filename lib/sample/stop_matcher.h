// Finds the first of some stop strings in a text that arrives in pieces. Holds back just what may be the
// beginning of one.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace coterie {

class StopMatcher {
  public:
    explicit StopMatcher(std::vector<std::string> stops);

    // The text that is certain not to belong to a stop string. After a match: what stood before it, then
    // nothing more.
    std::string push(std::string_view text);
    // At the end: what was held back.
    std::string flush();
    bool matched() const { return matched_ >= 0; }
    const std::string& match() const { return stops_[size_t(matched_)]; }

  private:
    std::vector<std::string> stops_;
    std::string held_;
    int matched_ = -1;
};

}  // namespace coterie
