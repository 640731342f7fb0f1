#include "convert/facts.h"

#include <algorithm>
#include <filesystem>

#include "base/failure.h"

namespace coterie::convert {
namespace {

// The largest of a number or an array of numbers (some models count heads per layer); 0 when absent or
// absurd.
int number(const gguf::File& file, const std::string& key) {
    const gguf::Value* value = file.find(key);
    if (!value) return 0;
    int64_t largest = 0;
    if (value->is_array())
        value->each([&](const gguf::Value& element) {
            largest = std::max(largest, element.as_int().value_or(0));
            return true;
        });
    else
        largest = value->as_int().value_or(0);
    return largest > 0 && largest <= INT32_MAX ? int(largest) : 0;
}

}  // namespace

quant::RecipeTensor recipe_tensor(const gguf::Tensor& tensor) {
    return {tensor.name, {tensor.shape.data(), size_t(tensor.dimensions)}, tensor.type};
}

std::string_view architecture_of(const gguf::File& file) {
    const auto name = file.get_string("general.architecture");
    if (!name || name->empty())
        fail(Status::bad_model, "'general.architecture' is missing in '{}'; this is not a model",
             file.path());
    return *name;
}

quant::RecipeModel recipe_model(const gguf::File& file) {
    const std::string_view architecture = architecture_of(file);
    const auto get = [&](const char* name) { return number(file, std::string(architecture) + "." + name); };
    return {architecture, get("block_count"), get("expert_count"), get("attention.head_count"),
            get("attention.head_count_kv")};
}

int required_number(const gguf::File& file, std::string_view name) {
    const std::string key = std::string(architecture_of(file)) + "." + std::string(name);
    const int value = number(file, key);
    if (value < 1)
        fail(Status::bad_model, "'{}' is missing in '{}', or is not a positive number", key, file.path());
    return value;
}

void refuse_same_file(const std::string& in_path, const std::string& out_path) {
    std::error_code ignored;
    if (std::filesystem::equivalent(in_path, out_path, ignored))
        fail(Status::invalid_argument, "the output '{}' is the input itself; give it another name", out_path);
}

}  // namespace coterie::convert
