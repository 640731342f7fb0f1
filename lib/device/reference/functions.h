// The scalar functions of the operations, in double.
#pragma once
#include <cmath>

namespace coterie::reference {

inline double sigmoid(double x) {
    return 1.0 / (1.0 + std::exp(-x));
}
inline double silu(double x) {
    return x * sigmoid(x);
}
// ln(1 + e^x) without overflow.
inline double softplus(double x) {
    return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
// The tanh form of GELU, as the models were trained with.
inline double gelu_tanh(double x) {
    const double root_two_over_pi = 0.79788456080286535588;
    return 0.5 * x * (1.0 + std::tanh(root_two_over_pi * (x + 0.044715 * x * x * x)));
}

}  // namespace coterie::reference
