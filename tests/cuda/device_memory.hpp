// Memory of the GPU for tests: poison around every buffer, and the same alignment as on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rowmax::test {

/// A stack of buffers that are given back together.
class DeviceMemory {
  public:
    static constexpr std::size_t guard = 512;

    /// A buffer whose address is `like` modulo 256, with bytes of 0xff (NaN in every type) in it and around it.
    std::byte* take(std::size_t bytes, std::uintptr_t like = 0);
    /// True while nobody wrote outside the buffers.
    [[nodiscard]] bool guards_hold() const;
    void give_back();

    static void to_device(std::byte* to, const void* from, std::size_t bytes);
    static void to_host(void* to, const std::byte* from, std::size_t bytes);

  private:
    struct Taken {
        std::size_t begin = 0;
        std::size_t data = 0;
        std::size_t bytes = 0;
        std::size_t end = 0;
    };
    void reserve();

    std::byte* arena_ = nullptr;
    std::size_t used_ = 0;
    std::vector<Taken> taken_;
};

}  // namespace rowmax::test
