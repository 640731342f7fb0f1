// Any bytes as a GGUF file: a Failure, or a file whose every value, tensor and description can be read.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "gguf/file.h"
#include "gguf/inspect.h"

namespace {

int memory_file() {
    static const int file = ::memfd_create("fuzz.gguf", MFD_CLOEXEC);
    return file;
}

uint64_t count_elements(const coterie::gguf::Value& value) {
    uint64_t count = 1;
    value.each([&](const coterie::gguf::Value& element) {
        count += count_elements(element);
        return true;
    });
    return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace coterie;
    const int file = memory_file();
    if (::ftruncate(file, 0) != 0 || ::pwrite(file, data, size, 0) != ssize_t(size)) return 0;
    try {
        const gguf::File model = gguf::File::open("/proc/self/fd/" + std::to_string(file));
        uint64_t elements = 0;
        for (const gguf::Entry& entry : model.metadata()) {
            elements += count_elements(entry.value);
            if (model.find(entry.key) != &entry.value) std::abort();
        }
        if (elements > 16 * size) std::abort();  // every element takes bytes of the file
        for (const gguf::Tensor& tensor : model.tensors()) {
            if (tensor.offset + tensor.bytes > size || model.find_tensor(tensor.name) != &tensor)
                std::abort();
            volatile std::byte last = tensor.data[tensor.bytes - 1];
            (void)last;
        }
        if (gguf::inspect_text(model).empty() || gguf::inspect_json(model).empty()) std::abort();
    } catch (const Failure&) {
    }
    return 0;
}
