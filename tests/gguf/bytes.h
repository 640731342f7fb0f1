// GGUF files made byte by byte in the tests: independent of the library's own writer, and able to lie.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace gguf_test {

// Appends little-endian numbers and length-prefixed texts.
struct Bytes {
    std::string data;
    template <typename T>
    Bytes& number(T value) {
        data.append(reinterpret_cast<const char*>(&value), sizeof value);
        return *this;
    }
    Bytes& text(std::string_view value) {
        number(uint64_t(value.size()));
        data += value;
        return *this;
    }
    Bytes& key(std::string_view name, uint32_t type) { return text(name).number(type); }
    Bytes& head(uint32_t version, uint64_t tensors, uint64_t entries) {
        data += "GGUF";
        return number(version).number(tensors).number(entries);
    }
    Bytes& tensor(std::string_view name, std::initializer_list<uint64_t> shape, uint32_t type,
                  uint64_t offset) {
        text(name).number(uint32_t(shape.size()));
        for (const uint64_t n : shape) number(n);
        return number(type).number(offset);
    }
    Bytes& pad(size_t alignment, char with = 0) {
        while (data.size() % alignment != 0) data += with;
        return *this;
    }
};

// A folder of this process, removed with everything in it at the end of the test.
struct Folder {
    std::string path;
    Folder() {
        char name[] = "/tmp/coterie-gguf-XXXXXX";
        path = ::mkdtemp(name);
    }
    ~Folder() {
        for (const std::string& name : files) ::unlink(name.c_str());
        ::rmdir(path.c_str());
    }
    std::string add(const std::string& name, std::string_view data) {
        const std::string full = path + "/" + name;
        std::ofstream(full, std::ios::binary).write(data.data(), std::streamsize(data.size()));
        files.push_back(full);
        return full;
    }
    std::vector<std::string> files;
};

}  // namespace gguf_test
