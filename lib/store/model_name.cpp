// Reading and writing names of models.
#include "store/model_name.h"

#include <algorithm>
#include <cctype>

namespace coterie::store {
namespace {

bool is_part(std::string_view part, size_t longest, std::string_view besides) {
    if (part.empty() || part.size() > longest) return false;
    if (!std::isalnum(static_cast<unsigned char>(part[0])) && part[0] != '_') return false;
    return std::all_of(part.begin(), part.end(), [&](unsigned char c) {
        return std::isalnum(c) != 0 || besides.find(char(c)) != std::string_view::npos;
    });
}

}  // namespace

std::optional<ModelName> ModelName::parse(std::string_view text) {
    if (const size_t scheme = text.find("://"); scheme != std::string_view::npos)
        text.remove_prefix(scheme + 3);
    ModelName name;
    const size_t slash = text.rfind('/');
    const size_t colon = text.rfind(':');
    if (colon != std::string_view::npos && (slash == std::string_view::npos || colon > slash)) {
        name.tag = text.substr(colon + 1);
        text = text.substr(0, colon);
    }
    if (const size_t at = text.rfind('/'); at != std::string_view::npos) {
        name.model = text.substr(at + 1);
        text = text.substr(0, at);
        if (const size_t first = text.rfind('/'); first != std::string_view::npos) {
            name.host = text.substr(0, first);
            text = text.substr(first + 1);
        }
        name.space = text;
    } else {
        name.model = text;
    }
    if (!is_part(name.host, 350, "-_.:") || !is_part(name.space, 80, "-_") ||
        !is_part(name.model, 80, "-_.") || !is_part(name.tag, 80, "-_."))
        return std::nullopt;
    return name;
}

std::string ModelName::shortest() const {
    const ModelName defaults;
    std::string text;
    if (!equal_names(host, defaults.host)) text = host + "/";
    if (!text.empty() || !equal_names(space, defaults.space)) text += space + "/";
    return text + model + ":" + tag;
}

bool equal_names(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace coterie::store
