// What the converters want to know of a model file.
#pragma once
#include "gguf/file.h"
#include "quant/recipe.h"

namespace coterie::convert {

// Views into the file's directory.
quant::RecipeTensor recipe_tensor(const gguf::Tensor& tensor);
// Throws bad_model without an architecture.
quant::RecipeModel recipe_model(const gguf::File& file);

// general.architecture; throws bad_model without one.
std::string_view architecture_of(const gguf::File& file);
// "{architecture}.{name}" as an integer that must be there and in [1, 2^31); an array gives its largest
// element.
int required_number(const gguf::File& file, std::string_view name);

// Throws invalid_argument when both names lead to one file.
void refuse_same_file(const std::string& in_path, const std::string& out_path);

}  // namespace coterie::convert
