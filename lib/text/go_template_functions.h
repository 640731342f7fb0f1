// The functions a Go template may call, and how Go prints and writes JSON.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "text/jinja_value.h"

namespace coterie::text::go {

std::string shown(const jinja::Value& value);
std::string marshalled(const jinja::Value& value);  // as json.Marshal: no spaces, < > & escaped
jinja::Value call_function(const std::string& name, const std::vector<jinja::Value>& arguments,
                           std::optional<int64_t> now);

// Tools with their members in the order of Ollama's structs, which is the order its models have seen.
jinja::Value ordered_tools(const jinja::Value& tools);

}  // namespace coterie::text::go
