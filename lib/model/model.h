// A model: a file, its architecture, its numbers and its tensor table, checked against each other. Immutable
// and shared; holds no weights of its own, only the mapping of the file.
#pragma once
#include <memory>
#include <string>

#include "base/progress.h"
#include "gguf/file.h"
#include "model/architecture.h"

namespace coterie {

class Model {
  public:
    // Throws what gguf::File::open throws; unsupported for an unknown architecture; bad_model listing every
    // tensor that is missing or misshapen.
    static std::shared_ptr<const Model> open(const std::string& path, const ProgressCallback& progress = {});

    const gguf::File& file() const { return file_; }
    const Architecture& architecture() const { return *architecture_; }
    const Hyperparameters& numbers() const { return numbers_; }
    const TensorTable& table() const { return table_; }
    uint64_t weight_bytes() const;  // of the tensors in the table, as in the file

    explicit Model(gguf::File file);

  private:
    gguf::File file_;
    const Architecture* architecture_;
    Hyperparameters numbers_;
    TensorTable table_;
};

}  // namespace coterie
