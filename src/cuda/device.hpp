// The CUDA devices of this machine. Works, and says so, on machines that have none.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rowmax/tensor.hpp"

namespace rowmax::cuda {

struct DeviceInfo {
    int capability = 0;  ///< 90 for 9.0
    int processors = 0;
    int shared_bytes = 0;  ///< that a thread block may ask for
};

/// Empty when a device can be used, else why not.
const std::string& device_problem();
int device_count();
/// Of a device that exists; does not wake it.
const DeviceInfo& device_info(int ordinal);
/// Before the first launch on the current device: loads what it can run, so that no later call waits for that.
void wake_device(int ordinal);

/// Throws Error: out_of_memory, or device with the driver's words.
void check(int cuda_error, std::string_view what);

/// Makes a device current, and the one before it again.
class CurrentDevice {
  public:
    explicit CurrentDevice(int ordinal);
    ~CurrentDevice();
    CurrentDevice(const CurrentDevice&) = delete;
    CurrentDevice& operator=(const CurrentDevice&) = delete;

  private:
    int before_ = 0;
    bool changed_ = false;
};

/// Scratch memory: what the caller brought, else from a pool until the end of the scope.
class Scratch {
  public:
    Scratch(void* given, std::size_t bytes, void* stream);
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    [[nodiscard]] std::byte* data() const { return data_; }

  private:
    std::byte* data_ = nullptr;
    void* stream_ = nullptr;
    bool owned_ = false;
};

/// Describes boxes of 128 bytes x `tokens` of a tensor [outer, inner, token, element]; strides in bytes.
struct TensorShape {
    const void* data = nullptr;
    DType dtype = DType::f16;
    std::int64_t size[4] = {1, 1, 1, 1};  ///< element, token, inner, outer
    std::int64_t stride[3] = {0, 0, 0};   ///< token, inner, outer
};
CUtensorMap tensor_map(const TensorShape& shape, int tokens);

}  // namespace rowmax::cuda
