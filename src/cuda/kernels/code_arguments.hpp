// What the kernels are given that make compressed tokens.
#pragma once

#include <cstdint>

#include "core/device_codes.hpp"

namespace rowmax::cuda {

inline constexpr int code_threads = 256;

struct SignArguments {
    core::DeviceRows rows;
    bool big = false;
    std::uint8_t* bits = nullptr;
};
extern const void* const sign_bits_kernel;

}  // namespace rowmax::cuda
