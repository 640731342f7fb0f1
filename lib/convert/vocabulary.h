// A vocabulary of a given size out of nothing, so that a synthetic model loads in any tool and every token
// decodes to printable text: a byte-level BPE of the 256 bytes, then all pairs and as many triples of
// printable characters as are wanted, each with its merge; special tokens at their ids.
#pragma once
#include <string_view>

#include "convert/model_shape.h"

namespace coterie::convert {

void set_vocabulary(const ModelShape& shape, gguf::Writer& writer);

// The id a special token has in this shape (they move down when the vocabulary was made smaller); -1 if there
// is none.
int special_id(const ModelShape& shape, std::string_view text);

}  // namespace coterie::convert
