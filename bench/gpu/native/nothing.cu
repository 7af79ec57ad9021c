#include "nothing.hpp"

namespace rowmax::bench {

namespace {

__global__ void nothing() {}

struct Kilobyte {
    char bytes[1024];
};

__global__ void nothing_of(const __grid_constant__ Kilobyte) {}

}  // namespace

const void* empty_kernel() {
    return reinterpret_cast<const void*>(&nothing);
}

const void* empty_kernel_of_a_kilobyte() {
    return reinterpret_cast<const void*>(&nothing_of);
}

}  // namespace rowmax::bench
