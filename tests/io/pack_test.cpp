#include "io/pack.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/half.hpp"
#include "io/builders.hpp"
#include "io/convert.hpp"
#include "io/inspect.hpp"
#include "io/support.hpp"
#include "io/token_items.hpp"
#include "rowmax/corpus.hpp"

namespace rowmax::test {
namespace {

const std::vector<float> twelve{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

class Pack : public FileTest {
  protected:
    /// Two items of three tokens, of which the mask hides two; ids "a" and "b".
    [[nodiscard]] io::TokenSource masked() const {
        return io::load_tokens(
            write("in.npz", zip({{.name = "tokens.npy", .data = npy("<f4", "(2, 3, 2)", raw_list(twelve))},
                                 {.name = "mask.npy", .data = npy("|b1", "(2, 3)", std::string("\1\0\1\0\1\1", 6))},
                                 {.name = "ids.npy", .data = npy("<U1", "(2,)", std::string("a\0\0\0b\0\0\0", 8))}})));
    }
};

TEST_F(Pack, KeepsTokensAndIds) {
    for (const std::int64_t block : {1, 24, 1 << 20}) {
        const io::PackReport report = io::pack(masked(), at("out"), {.block_bytes = block});
        EXPECT_EQ(report.documents, 2);
        EXPECT_EQ(report.tokens, 4);
        EXPECT_EQ(report.file_bytes, fs::file_size(at("out")));
        const Corpus corpus = Corpus::open(at("out"));
        corpus.verify();
        EXPECT_EQ(items_of(corpus.documents()), (Items{{0, 1, 4, 5}, {8, 9, 10, 11}}));
        EXPECT_EQ(corpus.id(1), "b");
    }
}

TEST_F(Pack, PackingACorpusAgainChangesNothing) {
    io::pack(masked(), at("one"));
    io::pack(io::load_tokens(at("one")), at("two"));
    EXPECT_EQ(contents(at("one")), contents(at("two")));
    io::pack(io::load_tokens(at("one")), at("one"));  // in place: the old mapping lives until it is done
    EXPECT_EQ(contents(at("one")), contents(at("two")));
}

TEST_F(Pack, Converts) {
    io::pack(masked(), at("out"), {.dtype = DType::f16});
    const Corpus corpus = Corpus::open(at("out"));
    corpus.verify();
    EXPECT_EQ(corpus.dtype(), DType::f16);
    std::vector<float> values;
    for (const std::uint16_t bits : values_of<std::uint16_t>(corpus.tokens()))
        values.push_back(core::half_to_float(bits));
    EXPECT_EQ(values, (std::vector<float>{0, 1, 4, 5, 8, 9, 10, 11}));
    EXPECT_EQ(corpus.id(0), "a");
}

TEST_F(Pack, NothingNarrowsInSilence) {
    const auto source = io::load_tokens(write("in", npy("<f4", "(1, 3, 2)", raw_list<float>({0, 1, 2, 3, 4, 70000}))));
    expect_error(ErrorCode::invalid_value, {"document 0, token 2", "70000", "float16"},
                 [&] { io::pack(source, at("out"), {.dtype = DType::f16}); });
    EXPECT_FALSE(fs::exists(at("out")));
    io::pack(source, at("out"), {.dtype = DType::bf16});
}

TEST_F(Pack, ProgressMayStopIt) {
    std::vector<std::int64_t> done;
    io::PackOptions options{.block_bytes = 1, .progress = [&](std::int64_t n, std::int64_t) { done.push_back(n); }};
    io::pack(masked(), at("out"), options);
    EXPECT_EQ(done, (std::vector<std::int64_t>{1, 2}));
    fs::remove(at("out"));
    options.progress = [](std::int64_t, std::int64_t) { throw std::runtime_error("stop"); };
    EXPECT_THROW(io::pack(masked(), at("out"), options), std::runtime_error);
    EXPECT_EQ(entries(), 1U);
}

TEST_F(Pack, FailsWholly) {
    expect_error(ErrorCode::io, {at("none/out").string()}, [&] { io::pack(masked(), at("none/out")); });
    expect_error(ErrorCode::io, {"/dev/null", "regular"}, [&] { io::pack(masked(), "/dev/null"); });
}

/// What a careful person would do: the nearest of the two neighbours, even on a tie.
double nearest_half(double value) {
    double best = std::numeric_limits<double>::infinity();
    std::uint16_t best_bits = 0;
    for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
        const double candidate = core::half_to_float(static_cast<std::uint16_t>(bits));
        const double distance = std::fabs(candidate - std::fabs(value));
        if (distance < best || (distance == best && bits % 2 == 0)) {
            best = distance;
            best_bits = static_cast<std::uint16_t>(bits);
        }
    }
    return std::copysign(core::half_to_float(best_bits), value);
}

TEST_F(Pack, DoubleToHalfRoundsOnce) {
    std::mt19937 random(5);
    std::vector<double> values{0,
                               -0.0,
                               1,
                               1 + 0x1p-11,
                               1 + 0x1p-11 + 0x1p-40,
                               1 + 3 * 0x1p-11 - 0x1p-45,
                               0x1p-25,
                               0x1p-25 + 0x1p-60,
                               65519.999,
                               65504,
                               0x1p-14 - 0x1p-26};
    for (int i = 0; i < 200; ++i)
        values.push_back(
            std::ldexp(std::uniform_real_distribution<double>(-2, 2)(random), static_cast<int>(random() % 38) - 24));
    for (const double value : values) {
        std::uint16_t half = 0;
        io::convert_row(reinterpret_cast<const std::byte*>(&value), DType::f64, reinterpret_cast<std::byte*>(&half),
                        DType::f16, 1, "x");
        ASSERT_EQ(static_cast<double>(core::half_to_float(half)), nearest_half(value)) << value;
    }
}

TEST_F(Pack, ConvertsWhatIsNotFinite) {
    const std::vector<float> values{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                                    std::nanf("")};
    for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
        std::vector<std::byte> there(24);
        std::vector<float> back(3);
        io::convert_row(reinterpret_cast<const std::byte*>(values.data()), DType::f32, there.data(), dtype, 3, "x");
        io::convert_row(there.data(), dtype, reinterpret_cast<std::byte*>(back.data()), DType::f32, 3, "x");
        EXPECT_EQ(back[0], values[0]);
        EXPECT_EQ(back[1], values[1]);
        EXPECT_TRUE(std::isnan(back[2]));
    }
}

TEST_F(Pack, Inspect) {
    io::pack(masked(), at("corpus"));
    const io::FileSummary corpus = io::inspect(at("corpus"));
    EXPECT_EQ(corpus.format, "corpus");
    ASSERT_EQ(corpus.arrays.size(), 4U);
    EXPECT_EQ(corpus.arrays[0].name, "tokens");
    EXPECT_EQ(corpus.arrays[0].type.spelled, "float32");
    const io::FileSummary npz = io::inspect(at("in.npz"));
    EXPECT_EQ(npz.format, "npz");
    EXPECT_EQ(npz.arrays[2].name, "ids");
    EXPECT_EQ(npz.arrays[2].type.spelled, "<U1");
    fs::create_directory(at("f"));
    write("f/d.npy", npy("|O", "(2,)", "pickle"));
    const io::FileSummary folder = io::inspect(at("f"));
    EXPECT_EQ(folder.arrays[0].name, "d");
    EXPECT_EQ(io::inspect(at("f/d.npy")).arrays[0].shape, (std::vector<std::int64_t>{2}));
    const auto tensors = write("s", safetensors(R"({"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})", "xy"));
    EXPECT_EQ(io::inspect(tensors).arrays[0].type.spelled, "F8_E4M3");
}

}  // namespace
}  // namespace rowmax::test
