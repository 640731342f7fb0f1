#include "device/cpu/elements16.h"

namespace coterie::cpu {

const Elements& avx2_elements() {
    return table;
}

}  // namespace coterie::cpu
