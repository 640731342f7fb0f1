// The types in which weights lie on a device, for host code that chooses a kernel by type.
#pragma once
#include <type_traits>

#include "cuda/kernels/kernel_language.h"
#include "quant/type.h"

namespace coterie::cuda {

// function(constant of the type), or cudaErrorInvalidValue where no kernel is made for it.
template <typename Function>
cudaError_t for_type(Type type, Function&& function) {
    switch (type) {
#define COTERIE_CASE(name) \
    case Type::name:       \
        return function(std::integral_constant<Type, Type::name>())
        COTERIE_CASE(F32);
        COTERIE_CASE(F16);
        COTERIE_CASE(BF16);
        COTERIE_CASE(Q4_0);
        COTERIE_CASE(Q4_1);
        COTERIE_CASE(Q5_0);
        COTERIE_CASE(Q5_1);
        COTERIE_CASE(Q8_0);
        COTERIE_CASE(Q3_K);
        COTERIE_CASE(Q4_K);
        COTERIE_CASE(Q5_K);
        COTERIE_CASE(Q6_K);
        COTERIE_CASE(IQ4_NL);
        COTERIE_CASE(IQ4_XS);
        COTERIE_CASE(MXFP4);
#undef COTERIE_CASE
        default:
            return cudaErrorInvalidValue;
    }
}

}  // namespace coterie::cuda
