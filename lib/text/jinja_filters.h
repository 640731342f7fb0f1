// The two tables of filters: those that work on sequences and those that work on single values.
#pragma once
#include <map>
#include <string>

#include "text/jinja_interpreter.h"

namespace coterie::text::jinja {

using Filter = Value (*)(Interpreter&, const Value&, const Arguments&);
using FilterTable = std::map<std::string, Filter, std::less<>>;

const FilterTable& sequence_filters();
const FilterTable& value_filters();

}  // namespace coterie::text::jinja
