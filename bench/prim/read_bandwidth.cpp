#include "prim/read_bandwidth.hpp"

#include "prim/together.hpp"

namespace rowmax::bench {
namespace {

constexpr std::size_t block = 256;
// The hardware prefetchers stop at page boundaries; the software one runs a little ahead of them.
constexpr std::size_t ahead = 4096;

double read_part(const std::byte* data, std::size_t bytes) {
    const std::byte* end = data + bytes / block * block;
    for (const std::byte* p = data; p < end; p += block) {
        for (std::size_t line = 0; line < block; line += 64) __builtin_prefetch(p + ahead + line);
        asm volatile(
            "movups (%0), %%xmm0\n\t movups 16(%0), %%xmm1\n\t movups 32(%0), %%xmm2\n\t movups 48(%0), %%xmm3\n\t"
            "movups 64(%0), %%xmm0\n\t movups 80(%0), %%xmm1\n\t movups 96(%0), %%xmm2\n\t movups 112(%0), %%xmm3\n\t"
            "movups 128(%0), %%xmm0\n\t movups 144(%0), %%xmm1\n\t movups 160(%0), %%xmm2\n\t movups 176(%0), "
            "%%xmm3\n\t"
            "movups 192(%0), %%xmm0\n\t movups 208(%0), %%xmm1\n\t movups 224(%0), %%xmm2\n\t movups 240(%0), %%xmm3"
            :
            : "r"(p)
            : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
    }
    return 0;
}

}  // namespace

void read_once(const std::byte* data, std::size_t bytes, int threads) {
    const std::size_t part = bytes / static_cast<std::size_t>(threads) / block * block;
    together(threads, [&](int i) { return read_part(data + static_cast<std::size_t>(i) * part, part); });
}

}  // namespace rowmax::bench
