// CPUID: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, "CPUID". The compiler's feature bits
// are set only when XGETBV says that the operating system saves the registers.
#include <cpuid.h>

#include "cpu/prim/features.hpp"

namespace rowmax::cpu {

namespace {

void add(std::string& list, bool present, const char* name) {
    if (present) return;
    if (!list.empty()) list += ", ";
    list += name;
}

bool has_f16c() {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

std::string missing_avx2() {
    std::string list;
    add(list, __builtin_cpu_supports("avx2") != 0, "avx2");
    add(list, __builtin_cpu_supports("fma") != 0, "fma");
    static const bool f16c = has_f16c();  // hypervisors catch CPUID, which then takes longer than a small call
    add(list, f16c, "f16c");
    return list;
}

std::string missing_avx512() {
    std::string list = missing_avx2();
    add(list, __builtin_cpu_supports("avx512f") != 0, "avx512f");
    add(list, __builtin_cpu_supports("avx512dq") != 0, "avx512dq");
    return list;
}

std::string missing_avx512_vnni() {
    std::string list = missing_avx512();
    add(list, __builtin_cpu_supports("avx512bw") != 0, "avx512bw");
    add(list, __builtin_cpu_supports("avx512vl") != 0, "avx512vl");
    add(list, __builtin_cpu_supports("avx512vnni") != 0, "avx512vnni");
    return list;
}

std::string missing_avx512_popcnt() {
    std::string list = missing_avx512();
    add(list, __builtin_cpu_supports("avx512vl") != 0, "avx512vl");
    add(list, __builtin_cpu_supports("avx512vpopcntdq") != 0, "avx512vpopcntdq");
    return list;
}

}  // namespace rowmax::cpu
