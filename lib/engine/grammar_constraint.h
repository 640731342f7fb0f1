// A grammar as a constraint on a generation's tokens. With free_until, everything is allowed up to that tag
// (the end of the thinking), and the grammar begins after it.
#pragma once
#include <memory>
#include <string>

#include "engine/generation.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

namespace coterie {

class GrammarConstraint final : public TokenConstraint {
  public:
    GrammarConstraint(std::shared_ptr<const text::Grammar> grammar,
                      std::shared_ptr<const text::TokenTrie> tokens,
                      std::shared_ptr<const text::Tokenizer> tokenizer, std::string free_until)
        : matcher_(std::move(grammar), std::move(tokens)),
          tokenizer_(std::move(tokenizer)),
          free_until_(std::move(free_until)),
          free_(!free_until_.empty()) {}

    bool mask(std::span<uint32_t> bits) override {
        if (free_) return false;
        matcher_.mask(bits);
        return true;
    }

    void accept(int32_t token) override {
        if (!free_) {
            if (!tokenizer_->is_end(token)) matcher_.accept(uint32_t(token));
            return;
        }
        seen_ += tokenizer_->bytes(token);
        const size_t at = seen_.find(free_until_);
        if (at != std::string::npos) {
            free_ = false;
            const std::string rest = seen_.substr(at + free_until_.size());
            if (rest.find_first_not_of(" \t\r\n") != std::string::npos) matcher_.accept_text(rest);
            seen_.clear();
        } else if (seen_.size() > free_until_.size()) {
            seen_.erase(0, seen_.size() - free_until_.size());
        }
    }

  private:
    text::GrammarMatcher matcher_;
    std::shared_ptr<const text::Tokenizer> tokenizer_;
    std::string free_until_, seen_;
    bool free_;
};

}  // namespace coterie
