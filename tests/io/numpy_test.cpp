// Files that numpy wrote, and files that numpy must read.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <numeric>

#include "core/half.hpp"
#include "io/archive.hpp"
#include "io/npy.hpp"
#include "io/support.hpp"
#include "io/token_items.hpp"
#include "io/token_source.hpp"

namespace rowmax::test {
namespace {

constexpr int no_numpy = 77;

class Numpy : public FileTest {
  protected:
    [[nodiscard]] int run(const std::string& command) const {
        const char* python = std::getenv("ROWMAX_PYTHON");
        const std::string line =
            fmt::format("'{}' '{}/numpy_files.py' {} '{}'", python != nullptr ? python : ROWMAX_TEST_PYTHON,
                        ROWMAX_TEST_SCRIPTS, command, folder_.string());
        return WEXITSTATUS(std::system(line.c_str()));
    }
};

template <class T>
void expect_counting(const TensorView& view) {
    std::vector<T> expected(24);
    std::iota(expected.begin(), expected.end(), T{0});
    EXPECT_EQ(values_of<T>(view), expected);
}

TEST_F(Numpy, ReadsWhatNumpyWrites) {
    const int status = run("write");
    if (status == no_numpy) GTEST_SKIP() << "this Python has no numpy";
    ASSERT_EQ(status, 0);
    expect_counting<float>(io::read_npy(at("f4.npy")).view);
    expect_counting<double>(io::read_npy(at("f8.npy")).view);
    expect_counting<std::int8_t>(io::read_npy(at("i1.npy")).view);
    expect_counting<std::uint8_t>(io::read_npy(at("u1.npy")).view);
    expect_counting<std::int16_t>(io::read_npy(at("i2.npy")).view);
    expect_counting<std::int32_t>(io::read_npy(at("i4.npy")).view);
    expect_counting<std::int64_t>(io::read_npy(at("i8.npy")).view);
    for (const int version : {1, 2, 3})
        expect_counting<float>(io::read_npy(at(fmt::format("version{}.npy", version))).view);
    EXPECT_EQ(io::read_npy(at("b1.npy")).view.dtype, DType::boolean);
    EXPECT_EQ(io::read_npy(at("empty.npy")).view.numel(), 0);
    const auto halves = values_of<std::uint16_t>(io::read_npy(at("f2.npy")).view);
    EXPECT_EQ(core::half_to_float(halves[23]), 23.0F);
    for (const char* name : {"bits.npy", "bfloat16.npy"}) {
        if (!fs::exists(at(name))) continue;  // without ml_dtypes
        const io::Array array = io::read_npy(at(name), DType::bf16);
        EXPECT_EQ(core::bfloat_to_float(values_of<std::uint16_t>(array.view)[23]), 23.0F) << name;
    }
    expect_error(ErrorCode::data, {"fortran"}, [&] { io::read_npy(at("fortran.npy")); });
    expect_error(ErrorCode::data, {"big endian"}, [&] { io::read_npy(at("big_endian.npy")); });
    expect_error(ErrorCode::data, {"|O"}, [&] { io::read_npy(at("object.npy")); });
    for (const char* name : {"stored.npz", "deflated.npz"}) {
        const io::TokenSource source = io::load_tokens(at(name));
        ASSERT_EQ(source.count(), 3);
        EXPECT_EQ(source.id(0) + source.id(1) + source.id(2), "édoc-2😀");
        EXPECT_EQ(items_of(source.block(2, 3).set)[0][0], 9.0F);
    }
    EXPECT_EQ(io::load_tokens(at("positional.npz")).dtype(), DType::f16);
}

TEST_F(Numpy, NumpyReadsWhatItWrites) {
    std::vector<float> values(12);
    std::iota(values.begin(), values.end(), 0.0F);
    const std::vector<std::int64_t> integers{0, 1, 2};
    const std::pair<const char*, TensorView> files[] = {{"float32.npy", {values.data(), DType::f32, {2, 3, 2}}},
                                                        {"bfloat16.npy", {values.data(), DType::bf16, {2, 3, 2}}},
                                                        {"int64.npy", {integers.data(), DType::i64, {3}}},
                                                        {"scalar.npy", {values.data(), DType::f32, {}}}};
    for (const auto& [name, view] : files) {
        io::OutputFile out(at(name));
        io::write_npy(out, view);
        out.commit();
    }
    const int status = run("check");
    if (status == no_numpy) GTEST_SKIP() << "this Python has no numpy";
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace rowmax::test
