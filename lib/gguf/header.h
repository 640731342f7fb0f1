// The header of one GGUF file (one shard): its metadata and tensor table, checked against the real file size
// before anything is allocated for them, so that memory stays within a small multiple of the file. Sets of
// files and look-ups by name are file.h's business.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/value.h"
#include "quant/type.h"

namespace coterie::gguf {

struct Entry {
    std::string_view key;
    Value value;
};

struct Tensor {
    std::string name;
    Type type = Type::F32;
    int dimensions = 0;                         // as written; shape is filled up with ones
    std::array<uint64_t, 4> shape{1, 1, 1, 1};  // shape[0] is the contiguous one (a row)
    uint64_t bytes = 0;
    uint64_t offset = 0;  // from the start of its shard's file
    int shard = 0;
    const std::byte* data = nullptr;  // into the mapped file, at least 8-aligned

    uint64_t elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
    uint64_t rows() const { return shape[1] * shape[2] * shape[3]; }
    std::span<const std::byte> contents() const { return {data, bytes}; }
};

std::string shape_text(const Tensor& tensor);  // "[2048, 768, 128]"

struct Header {
    uint32_t version = 0;
    uint64_t alignment = 0;
    uint64_t data_offset = 0;     // of the tensor data in the file
    std::vector<Entry> metadata;  // in file order
    std::vector<Tensor> tensors;  // in file order
};

// bytes: the whole file. Throws bad_model (damaged, cut short) or unsupported (version, byte order, tensor
// type).
Header read_header(std::span<const std::byte> bytes, const std::string& path, int shard);

}  // namespace coterie::gguf
