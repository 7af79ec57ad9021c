// Skips everything, and says so, on a machine without a GPU.
#include <gtest/gtest.h>

#include <cstdio>

#include "cuda/device.hpp"

int main(int argc, char** argv) {
    ::testing::InitGoogleTest(&argc, argv);
    constexpr int skipped = 77;
    if (!rowmax::cuda::device_problem().empty()) {
        std::printf("skipped: this machine lacks %s\n", rowmax::cuda::device_problem().c_str());
        return skipped;
    }
    return RUN_ALL_TESTS();
}
