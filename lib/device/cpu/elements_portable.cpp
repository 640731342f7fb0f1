#include "device/cpu/vector16.h"

namespace coterie::cpu {

const Elements& portable_elements() {
    return table;
}

}  // namespace coterie::cpu
