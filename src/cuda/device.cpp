#include "cuda/device.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <mutex>

#include "cuda/launch.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cuda {

namespace {

constexpr int most_devices = 64;

struct Devices {
    int count = 0;
    std::string problem;

    Devices() {
        const cudaError_t error = cudaGetDeviceCount(&count);
        if (error != cudaSuccess) {
            count = 0;
            problem = fmt::format("a CUDA device ({})", cudaGetErrorString(error));
            cudaGetLastError();  // not to be found by somebody else
        } else if (count == 0) {
            problem = "a CUDA device";
        }
        if (count > most_devices) count = most_devices;
    }
};

const Devices& devices() {
    static const Devices found;
    return found;
}

int attribute(cudaDeviceAttr name, int ordinal) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, name, ordinal), "cudaDeviceGetAttribute");
    return value;
}

DeviceInfo read_info(int ordinal) {
    DeviceInfo info;
    info.capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor, ordinal) +
                      attribute(cudaDevAttrComputeCapabilityMinor, ordinal);
    info.processors = attribute(cudaDevAttrMultiProcessorCount, ordinal);
    info.shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal);
    return info;
}

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// By name at run time, so that the library does not need the driver to be there.
EncodeTiled encode_tiled() {
    static const EncodeTiled function = [] {
        void* found = nullptr;
        cudaDriverEntryPointQueryResult result{};
        check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result),
              "cuTensorMapEncodeTiled");
        if (found == nullptr) throw Error(ErrorCode::device, "the CUDA driver has no cuTensorMapEncodeTiled");
        return reinterpret_cast<EncodeTiled>(found);
    }();
    return function;
}

/// What a stream under capture does not mind, though another thread's might.
class RelaxedCapture {
  public:
    RelaxedCapture() { check(cudaThreadExchangeStreamCaptureMode(&mode_), "scratch memory"); }
    ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  private:
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

cudaMemPool_t make_scratch_pool(int ordinal) {
    const RelaxedCapture relaxed;
    cudaMemPoolProps wanted{};
    wanted.allocType = cudaMemAllocationTypePinned;
    wanted.location = {cudaMemLocationTypeDevice, ordinal};
    cudaMemPool_t pool = nullptr;
    check(cudaMemPoolCreate(&pool, &wanted), "scratch memory");
    std::uint64_t kept = std::uint64_t{64} << 20;
    const cudaError_t error = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept);
    if (error != cudaSuccess) cudaMemPoolDestroy(pool);
    check(error, "scratch memory");
    return pool;
}

// Of the current device. Its own pool gives all memory back to the system whenever the host waits for the device, and
// getting it again takes milliseconds: ours keeps some.
cudaMemPool_t scratch_pool() {
    static std::array<cudaMemPool_t, most_devices> pools{};
    static std::array<std::once_flag, most_devices> once;
    int ordinal = 0;
    check(cudaGetDevice(&ordinal), "cudaGetDevice");
    const auto at = static_cast<std::size_t>(ordinal);
    std::call_once(once[at], [&] { pools[at] = make_scratch_pool(ordinal); });
    return pools[at];
}

CUtensorMapDataType element_of(DType dtype) {
    switch (dtype) {
        case DType::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
        case DType::f32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
        case DType::i8:
        case DType::f8e4m3: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
        default: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    }
}

}  // namespace

const std::string& device_problem() {
    return devices().problem;
}

int device_count() {
    return devices().count;
}

const DeviceInfo& device_info(int ordinal) {
    static std::array<DeviceInfo, most_devices> infos;
    static std::array<std::once_flag, most_devices> once;
    if (ordinal < 0 || ordinal >= device_count()) {
        throw Error(ErrorCode::device,
                    fmt::format("there is no CUDA device {}: this machine has {}{}", ordinal, device_count(),
                                device_problem().empty() ? "" : ", it lacks " + device_problem()));
    }
    const auto at = static_cast<std::size_t>(ordinal);
    std::call_once(once[at], [&] { infos[at] = read_info(ordinal); });
    return infos[at];
}

void wake_device(int ordinal) {
    static std::array<std::once_flag, most_devices> once;
    const DeviceInfo& info = device_info(ordinal);
    std::call_once(once[static_cast<std::size_t>(ordinal)], [&] { load_kernels(info); });
}

void check(int cuda_error, std::string_view what) {
    if (cuda_error == cudaSuccess) return;
    const auto error = static_cast<cudaError_t>(cuda_error);
    cudaGetLastError();
    throw Error(error == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device,
                fmt::format("{}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error)));
}

CurrentDevice::CurrentDevice(int ordinal) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ == ordinal) return;
    check(cudaSetDevice(ordinal), "cudaSetDevice");
    changed_ = true;
}

CurrentDevice::~CurrentDevice() {
    if (changed_) cudaSetDevice(before_);
}

Scratch::Scratch(void* given, std::size_t bytes, void* stream)
    : data_(static_cast<std::byte*>(given)), stream_(stream) {
    if (given != nullptr || bytes == 0) return;
    void* memory = nullptr;
    check(cudaMallocFromPoolAsync(&memory, bytes, scratch_pool(), static_cast<cudaStream_t>(stream)), "scratch memory");
    data_ = static_cast<std::byte*>(memory);
    owned_ = true;
}

Scratch::~Scratch() {
    if (owned_) cudaFreeAsync(data_, static_cast<cudaStream_t>(stream_));
}

CUtensorMap tensor_map(const TensorShape& shape, int tokens) {
    CUtensorMap map;
    const cuuint64_t size[4] = {static_cast<cuuint64_t>(shape.size[0]), static_cast<cuuint64_t>(shape.size[1]),
                                static_cast<cuuint64_t>(shape.size[2]), static_cast<cuuint64_t>(shape.size[3])};
    const cuuint64_t stride[3] = {static_cast<cuuint64_t>(shape.stride[0]), static_cast<cuuint64_t>(shape.stride[1]),
                                  static_cast<cuuint64_t>(shape.stride[2])};
    const cuuint32_t box[4] = {static_cast<cuuint32_t>(128 / size_of(shape.dtype)), static_cast<cuuint32_t>(tokens), 1,
                               1};
    const cuuint32_t step[4] = {1, 1, 1, 1};
    const CUresult result = encode_tiled()(&map, element_of(shape.dtype), 4, const_cast<void*>(shape.data), size,
                                           stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                           CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        throw Error(ErrorCode::device, fmt::format("cuTensorMapEncodeTiled failed ({}) for sizes {} x {} x {} x {}",
                                                   static_cast<int>(result), size[3], size[2], size[1], size[0]));
    }
    return map;
}

}  // namespace rowmax::cuda
