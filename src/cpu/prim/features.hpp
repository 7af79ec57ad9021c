// What this machine's CPU and operating system offer.
#pragma once

#include <string>

namespace rowmax::cpu {

/// Empty when the instructions can be used (the operating system saves their registers), else what is missing.
std::string missing_avx2();
std::string missing_avx512();
std::string missing_avx512_vnni();
std::string missing_avx512_popcnt();

}  // namespace rowmax::cpu
