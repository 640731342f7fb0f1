#include "text/jinja.h"

#include "base/failure.h"

namespace coterie::text::jinja {

Template::Template(std::string_view source, std::string name) : source_(source), name_(std::move(name)) {
    int line = 1;
    try {
        root_ = parse_template(source_, line);
    } catch (const Trouble& trouble) {
        fail(Status::bad_model, "{}, line {}: {}", name_, line, trouble.message);
    }
}

std::string Template::render(const Dict& variables, const Limits& limits, std::optional<int64_t> now) const {
    Interpreter interpreter(variables, limits, now);
    try {
        return interpreter.run(*root_);
    } catch (const Trouble& trouble) {
        if (trouble.raised_by_template)
            fail(Status::invalid_argument, "the {} refuses this conversation: {}", name_, trouble.message);
        fail(Status::bad_model, "{}, line {}: {}", name_, interpreter.line(), trouble.message);
    }
}

}  // namespace coterie::text::jinja
