#include "device/cpu/elements16.h"

namespace coterie::cpu {

const Elements& portable_elements() {
    return table;
}

}  // namespace coterie::cpu
