// Holds any device against the reference device: every operation over several shapes and nasty data
// (outliers, zeros, equal router scores, several sequences of different lengths in a step, odd widths,
// strided views), every fused operation against its body on the same device, and the memory calls. Catch2
// checks; each names the device, the operation and the shape.
#pragma once
#include <functional>
#include <string>

#include "device/device.h"
#include "workbench.h"

namespace coterie::test {

// Largest normalised mean square errors. The defaults are for a device that computes in F32 throughout.
struct Bounds {
    double elements = 1e-11;  // norms, activations, sums, convolution, router weights
    double softcap = 1e-11;   // a tanh made of exp loses the last digits of small numbers: about 1e-6
    double rope = 1e-9;       // angles of up to 100000 radians
    double products = 1e-10;  // of F32, F16 and BF16 weights
    double quantised =
        1e-10;  // of quantised weights; a device that rounds activations to 8 bits needs about 1e-4
    double outliers =
        1e-10;  // the same for activations that share their scale with one 50 times as large: 5e-3
    double attention = 1e-9;       // F32 and F16 caches
    double attention_q8 = 1e-4;    // Q8_0 caches: two devices may round a tie differently
    double delta = 1e-9;           // over 130 tokens
    double fused = 1e-9;           // fused operations against their bodies on the same device
    double fused_products = 1e-9;  // the same where weights take part
};

void conform(Device& device, const Bounds& bounds = {});

// Parts of it, each its own file.
class Conformance {
  public:
    Conformance(Device& on, const Bounds& of) : device(on), bounds(of) {}
    Device& device;
    const Bounds& bounds;
    std::vector<std::string> failures;  // what doesn't hold, and by how much
    int tried = 0;

    using Work = std::function<Floats(Bench&)>;
    // The same work on the device and on the reference device gives nearly the same numbers.
    void compare(const std::string& what, double bound, const Work& work);
    // Two ways to the same numbers on the device.
    void agree(const std::string& what, double bound, const Work& fused, const Work& body);

    void require(const std::string& what, bool holds);

    void elements();
    void memory();
    void products();
    void routing();
    void ranking();
    void experts();
    void rope();
    void attention();
    void convolution();
    void delta();

  private:
    void hold(const std::string& what, double bound, const std::function<double()>& distance);
};

// The data that every operation is tried with.
constexpr Data all_data[] = {Data::normal, Data::outliers, Data::zeros, Data::small};
std::string name_of(Data data);

}  // namespace coterie::test
