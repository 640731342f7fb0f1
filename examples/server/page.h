// The page at /: its files, put into the program when it is built.
#pragma once
#include "http.h"

namespace server {

void add_page(Http& http);

}  // namespace server
