// A Jinja template, read once and rendered many times, with the settings Hugging Face's chat templates are
// written for. It knows nothing about chat: chat_template.h does. A template may be rendered by several
// threads at once.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja_interpreter.h"
#include "text/jinja_value.h"

namespace coterie::text::jinja {

class Template {
  public:
    // `name` stands in messages: "chat template". Fails with bad_model and the line when the text is not a
    // template.
    explicit Template(std::string_view source, std::string name = "chat template");

    // Fails with bad_model and the line; with invalid_argument when the template itself raised an exception.
    // `now` fixes the clock of strftime_now, in seconds since 1970 (UTC); without it the local time counts.
    std::string render(const Dict& variables, const Limits& limits = {},
                       std::optional<int64_t> now = {}) const;

    const std::string& source() const { return source_; }

  private:
    std::string source_, name_;
    std::shared_ptr<const Node> root_;
};

}  // namespace coterie::text::jinja
