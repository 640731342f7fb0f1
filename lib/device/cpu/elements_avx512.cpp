#include "device/cpu/elements16.h"

namespace coterie::cpu {

const Elements& avx512_elements() {
    return table;
}

}  // namespace coterie::cpu
