#include "device/cpu/kernels.h"

#include "base/failure.h"
#include "device/cpu/elements.h"

namespace coterie::cpu {

const Kernels& kernels(Isa isa) {
    if (!isa_usable(isa))
        fail(Status::unsupported, "this machine can't run the instruction set '{}'", isa_name(isa));
#if defined(__x86_64__)
    if (isa == Isa::avx512) return avx512_kernels();
    if (isa == Isa::avx2) return avx2_kernels();
#endif
    return portable_kernels();
}

const Elements& elements(Isa isa) {
    if (!isa_usable(isa))
        fail(Status::unsupported, "this machine can't run the instruction set '{}'", isa_name(isa));
#if defined(__x86_64__)
    if (isa == Isa::avx512) return avx512_elements();
    if (isa == Isa::avx2) return avx2_elements();
#endif
    return portable_elements();
}

}  // namespace coterie::cpu
