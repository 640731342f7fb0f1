// A byte as it stands inside a JSON string: escaped where JSON wants it, in its shortest form.
#pragma once
#include <string>

namespace coterie::text {

void append_json_byte(std::string& out, char byte);

}  // namespace coterie::text
