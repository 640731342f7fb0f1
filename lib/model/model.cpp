#include "model/model.h"

#include <fmt/ranges.h>

#include <set>

#include "base/failure.h"

namespace coterie {

Model::Model(gguf::File file) : file_(std::move(file)) {
    const auto name = file_.get_string("general.architecture");
    if (!name)
        fail(Status::bad_model, "'general.architecture' is missing in '{}'; this is not a model",
             file_.path());
    architecture_ = find_architecture(*name);
    if (!architecture_)
        fail(Status::unsupported, "'{}' has architecture '{}', which is not known; known are {}",
             file_.path(), *name, fmt::join(known_architectures(), ", "));
    numbers_ = read_common(file_);
    architecture_->read(file_, numbers_);
    architecture_->tensors(numbers_, table_);
    table_.resolve(file_);
}

std::shared_ptr<const Model> Model::open(const std::string& path, const ProgressCallback& progress) {
    return std::make_shared<const Model>(gguf::File::open(path, progress));
}

uint64_t Model::weight_bytes() const {
    std::set<const gguf::Tensor*> counted;
    uint64_t bytes = 0;
    for (const TensorEntry& entry : table_.entries())
        for (const gguf::Tensor* tensor : entry.tensors)
            if (counted.insert(tensor).second) bytes += tensor->bytes;
    return bytes;
}

}  // namespace coterie
