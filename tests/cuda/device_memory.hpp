// Memory of the GPU for tests: poison around every buffer, and the same alignment as on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
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

/// Buffers of one call: an image of them on the host goes there at once and comes back at once, since each copy that is
/// waited for costs more than it holds, above all while several programs share the GPU. Poison and alignment as above.
class DeviceImage {
  public:
    /// Where the buffer will be.
    std::byte* take(std::size_t bytes, std::uintptr_t like = 0);
    /// What it will hold, instead of poison.
    void put(std::byte* to, const void* from, std::size_t bytes);
    void send() const;
    void fetch();
    /// Of what was fetched.
    void get(void* to, const void* from, std::size_t bytes) const;
    [[nodiscard]] bool guards_hold() const;
    void give_back();

  private:
    [[nodiscard]] std::size_t offset_of(const void* address) const;

    std::byte* arena_ = nullptr;
    std::vector<std::byte> image_;
    std::vector<std::pair<std::size_t, std::size_t>> guards_;  ///< begin and end
};

}  // namespace rowmax::test
