// Compressed tokens made on the device, behind core/device_codes.hpp.
#include <fmt/format.h>

#include <cstdint>

#include "core/device_codes.hpp"
#include "cuda/device.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/kernels/code_arguments.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cuda {

namespace {

void make_sign_bits(const core::Place& place, const core::DeviceRows& rows, bool big, std::uint8_t* bits) {
    const std::int64_t blocks = (rows.count() * ((rows.dim + 7) / 8) + code_threads - 1) / code_threads;
    if (blocks == 0) return;
    constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
    if (blocks > most) {
        throw Error(ErrorCode::not_implemented, fmt::format("sign bits of {} tokens in one call", rows.count()));
    }
    const CurrentDevice current(place.ordinal);
    wake_device(place.ordinal);
    const SignArguments call{rows, big, bits};
    launch(sign_bits_kernel, {blocks, code_threads}, place, &call);
}

constexpr core::DeviceCodes code_operations{&make_sign_bits};

}  // namespace
}  // namespace rowmax::cuda

namespace rowmax::core {

const DeviceCodes* device_codes() {
    return &cuda::code_operations;
}

}  // namespace rowmax::core
