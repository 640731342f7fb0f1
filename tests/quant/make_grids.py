#!/usr/bin/env python3
"""Writes lib/quant/grids.cpp: the IQ codebooks as the `gguf` package decodes with them, packed our way.

A codebook is a rising list of 16-bit numbers, 2 bits (IQ1, IQ2) or 4 bits (IQ3) per weight, each choosing a
level. We store the gaps as digits: below 64 ends a gap, 64 + k adds (k + 1) * 64 to it.
usage: make_grids.py > lib/quant/grids.cpp   (needs: pip install gguf numpy)
"""
import numpy as np
import gguf.quants as q

DIGITS = [chr(c) for c in range(35, 127) if chr(c) not in "\\?"][:85]


def gaps(cls):
    words = np.frombuffer(bytes.fromhex(cls.grid_hex.decode()), dtype="<u2").astype(int)
    assert len(words) == cls.grid_shape[0] and (np.diff(words) > 0).all()
    text, previous = "", -1
    for word in words:
        gap, previous = word - previous - 1, word
        while gap >= 64:
            carry = min(gap // 64, 21)
            text += DIGITS[63 + carry]
            gap -= 64 * carry
        text += DIGITS[gap]
    return text


print(r"""// The IQ codebooks, written by tests/quant/make_grids.py: do not edit. A codebook is a rising list of 16-bit
// numbers, 2 bits (IQ1, IQ2) or 4 bits (IQ3) per weight, each choosing a level. The text holds the gaps
// between them: a digit below 64 ends a gap, digit 64 + k adds (k + 1) * 64 to it. Digits are the ASCII
// characters from 35 on without ? and backslash.
#include "quant/grids.h"

#include <string_view>

namespace coterie::quant {
namespace {

template <typename Entry, size_t size, size_t n_levels>
constexpr std::array<Entry, size> codebook(std::string_view gaps, const int (&levels)[n_levels]) {
    constexpr int weights = sizeof(Entry), bits = 16 / weights;
    std::array<Entry, size> entries{};
    size_t n = 0;
    uint32_t word = 0;
    for (const char c : gaps) {
        const uint32_t digit = uint32_t(c) - 35 - (c > '?') - (c > '\\');
        if (digit >= 64) {
            word += (digit - 63) * 64;
            continue;
        }
        word += digit;
        for (int i = 0; i < weights; ++i)
            entries[n] |= Entry(uint8_t(levels[(word >> (i * bits)) & ((1 << bits) - 1)])) << (8 * i);
        ++n;
        ++word;
    }
    return entries;
}
""")
for levels, cls in (("iq2", q.IQ2_XXS), ("iq3xxs", q.IQ3_XXS), ("iq3s", q.IQ3_S), ("iq1", q.IQ1_S)):
    values = ", ".join(str(v) for v in cls.grid_map)
    print(f"constexpr int {levels}_levels[] = {{{values}}};")
print("\n}  // namespace\n")
for name, levels, cls in (
    ("iq2xxs", "iq2", q.IQ2_XXS), ("iq2xs", "iq2", q.IQ2_XS), ("iq2s", "iq2", q.IQ2_S),
    ("iq1", "iq1", q.IQ1_S),
    ("iq3xxs", "iq3xxs", q.IQ3_XXS), ("iq3s", "iq3s", q.IQ3_S)):
    text = gaps(cls)
    lines = "\n".join(f'    "{text[i:i + 100]}"' for i in range(0, len(text), 100))
    entry = "uint64_t" if cls.grid_shape[1] == 8 else "uint32_t"
    size = cls.grid_shape[0]
    array = f"std::array<{entry}, {size}>"
    print(f"constinit const {array} {name}_grid = codebook<{entry}, {size}>(\n{lines},\n    {levels}_levels);\n")
print("}  // namespace coterie::quant")
