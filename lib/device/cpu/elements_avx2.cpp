#include "device/cpu/vector16.h"

namespace coterie::cpu {

const Elements& avx2_elements() {
    return table;
}

}  // namespace coterie::cpu
