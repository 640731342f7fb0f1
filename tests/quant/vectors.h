// Reads tests/data/quant/*.bin as written by make_vectors.py.
#pragma once
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

struct Vectors {
    std::vector<std::byte> blocks;
    std::vector<float> floats;
};

inline Vectors read_vectors(const std::string& name) {
    std::ifstream file(std::string(TEST_DATA) + "/quant/" + name + ".bin", std::ios::binary);
    const std::string data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    int32_t sizes[2] = {};
    if (data.size() < sizeof sizes) return {};
    std::memcpy(sizes, data.data(), sizeof sizes);
    Vectors v;
    v.floats.resize(size_t(sizes[0]));
    v.blocks.resize(size_t(sizes[1]));
    if (data.size() != sizeof sizes + v.blocks.size() + v.floats.size() * sizeof(float)) return {};
    std::memcpy(v.blocks.data(), data.data() + sizeof sizes, v.blocks.size());
    std::memcpy(v.floats.data(), data.data() + sizeof sizes + v.blocks.size(),
                v.floats.size() * sizeof(float));
    return v;
}
