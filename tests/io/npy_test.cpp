#include "io/npy.hpp"

#include <gtest/gtest.h>

#include "io/builders.hpp"
#include "io/support.hpp"

namespace rowmax::test {
namespace {

using io::Array;
using io::read_npy;

class Npy : public FileTest {
  protected:
    [[nodiscard]] Array read(const std::string& bytes, std::optional<DType> dtype = {}) const {
        return read_npy(write("x.npy", bytes), dtype);
    }
    void expect_bad(const std::string& bytes, const std::vector<std::string>& parts) const {
        const fs::path path = write("bad.npy", bytes);
        std::vector<std::string> all = parts;
        all.push_back(path.string());
        expect_error(ErrorCode::data, all, [&] { read_npy(path); });
    }
};

const std::string six_floats = raw_list<float>({0, 1, 2, 3, 4, 5});

TEST_F(Npy, ReadsInPlaceAndKeepsTheMapping) {
    const Array array = read(npy("<f4", "(2, 3)", six_floats));
    fs::remove(at("x.npy"));
    EXPECT_EQ(array.view.dtype, DType::f32);
    EXPECT_EQ(shape_of(array.view), (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(bytes_of(array.view), six_floats);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.view.data) % 64, 0U);
}

TEST_F(Npy, EveryVersion) {
    for (const int version : {1, 2, 3}) {
        EXPECT_EQ(bytes_of(read(npy("<f4", "(2, 3)", six_floats, version)).view), six_floats) << version;
    }
}

TEST_F(Npy, EveryType) {
    struct Case {
        const char* descr;
        DType dtype;
    };
    const Case cases[] = {{"<f2", DType::f16},  {"<f4", DType::f32},       {"<f8", DType::f64},
                          {"|i1", DType::i8},   {"|u1", DType::u8},        {"<i2", DType::i16},
                          {"<i4", DType::i32},  {"<i8", DType::i64},       {"|b1", DType::boolean},
                          {"<V2", DType::bf16}, {"bfloat16", DType::bf16}, {"|V2", DType::bf16}};
    for (const Case& c : cases) {
        const Array array = read(npy(c.descr, "(3,)", std::string(3 * size_of(c.dtype), '\1')));
        EXPECT_EQ(array.view.dtype, c.dtype) << c.descr;
        EXPECT_EQ(array.view.numel(), 3) << c.descr;
    }
}

TEST_F(Npy, SixteenBitIntegersBecomeFloatsOnlyWhenAsked) {
    const std::string file = npy("<u2", "(2,)", raw_list<std::uint16_t>({0x3f80, 0x4000}));
    EXPECT_EQ(read(file, DType::bf16).view.dtype, DType::bf16);
    EXPECT_EQ(read(file, DType::f16).view.dtype, DType::f16);
    expect_bad(file, {"<u2", "dtype option"});
    const fs::path floats = write("f.npy", npy("<f4", "(6,)", six_floats));
    expect_error(ErrorCode::invalid_type, {floats.string(), "<f4", "bfloat16"}, [&] { read_npy(floats, DType::bf16); });
    EXPECT_EQ(read_npy(floats, DType::f32).view.dtype, DType::f32);
}

TEST_F(Npy, ShapesAtTheEdge) {
    EXPECT_EQ(read(npy("<f4", "()", six_floats.substr(0, 4))).view.ndim, 0);
    EXPECT_EQ(read(npy("<f4", "(0, 7)", "")).view.numel(), 0);
    EXPECT_EQ(read(npy("<f4", "(6,)", six_floats)).view.ndim, 1);
    EXPECT_EQ(read(npy("<f4", "(1, 1, 2, 3)", six_floats)).view.ndim, 4);
    expect_bad(npy("<f4", "(1, 1, 1, 2, 3)", six_floats), {"5 dimensions"});
}

TEST_F(Npy, FortranOrder) {
    const auto file = [](const char* shape) {
        return npy_file(std::string("{'descr': '<f4', 'fortran_order': True, 'shape': ") + shape + "}", six_floats);
    };
    EXPECT_EQ(bytes_of(read(file("(6,)")).view), six_floats);
    expect_bad(file("(2, 3)"), {"fortran_order", "[2, 3]"});
}

TEST_F(Npy, HeaderIsReadStrictly) {
    EXPECT_EQ(read(npy_file("{\"shape\":(6,),\"fortran_order\":False,\"descr\":\"<f4\"}", six_floats)).view.numel(), 6);
    const std::string rest = "'fortran_order': False, 'shape': (6,)";
    const std::pair<std::string, std::string> cases[] = {
        {"{'descr': '<f4', " + rest + ", 'extra': 1}", "extra"},
        {"{'descr': '<f4', 'descr': '<f4', " + rest + "}", "twice"},
        {"{" + rest + "}", "must have"},
        {"{'descr': '<f4', " + rest + "} import os", "the end"},
        {std::string("{'descr': '<f4', " + rest + "}") + '\0', "the end"},
        {"{'descr': '<f4', " + rest, "'}'"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}", "True or False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 6}", "'('"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6)}", "','"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", "','"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6L,)}", "','"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", "a number"},
        {"{'descr': '<f4, " + rest + "}", "fortran_order"},
        {"{'descr': [('a', '<f4')], " + rest + "}", "structured"},
        {"[]", "'{'"},
        {"", "'{'"},
    };
    for (const auto& [header, part] : cases) expect_bad(npy_file(header, six_floats), {part});
}

TEST_F(Npy, TypesItCannotRead) {
    expect_bad(npy("|O", "(6,)", six_floats), {"|O"});
    expect_bad(npy(">f4", "(6,)", six_floats), {">f4", "big endian"});
    expect_bad(npy("<c8", "(3,)", six_floats), {"<c8"});
    expect_bad(npy("<u4", "(6,)", six_floats), {"<u4"});
    expect_bad(npy("<f99999999999999999999", "(6,)", six_floats), {"<f9999"});
    expect_bad(npy("", "(6,)", six_floats), {"dtype"});
    expect_bad(npy("\x1b[31m", "(6,)", six_floats), {"\\x1b[31m"});  // nothing reaches a terminal raw
}

TEST_F(Npy, SizesThatLie) {
    expect_bad(npy("<f4", "(7,)", six_floats), {"[7]", "28", "24"});
    expect_bad(npy("<f4", "(5,)", six_floats), {"[5]", "20", "24"});
    expect_bad(npy("<f4", "(-6,)", six_floats), {"-6"});
    expect_bad(npy("<f4", "(9223372036854775807,)", six_floats), {"overflows"});
    expect_bad(npy("<f4", "(9223372036854775808,)", six_floats), {"9223372036854775808", "2^63"});
    expect_bad(npy("<f4", "(4294967296, 4294967296)", six_floats), {"overflows"});
    expect_bad(npy("<f4", "(0, 4294967296, 4294967296)", ""), {"overflows"});
    expect_bad(npy("<f4", "(2305843009213693952, 4)", ""), {"overflows"});
}

TEST_F(Npy, PreambleThatLies) {
    const std::string good = npy("<f4", "(6,)", six_floats);
    std::string bad = good;
    bad[6] = '\x09';
    expect_bad(bad, {"version: 9.0"});
    bad = good;
    bad[8] = bad[9] = '\xff';
    expect_bad(bad, {"header length: 65535"});
    bad = npy("<f4", "(6,)", six_floats, 2);
    bad[10] = bad[11] = '\x7f';
    expect_bad(bad, {"header length", "at most 65536"});
    expect_bad("", {"0 bytes"});
    expect_bad(std::string("\x93NUMPZ\x01\x00\x00\x00", 10), {"magic"});
}

TEST_F(Npy, DamageIsAnErrorOrRightData) {
    const std::string file = npy("<f4", "(2, 3)", six_floats);
    const int accepted = accepted_when_damaged(file, file.size(), [&](const std::string& damaged) {
        const Array array = read(damaged);
        EXPECT_EQ(bytes_of(array.view).size(), six_floats.size());
    });
    // All 8 * 24 flips of the data itself are fine; of the header, few: padding, '<' to '|' or '=', f4 to i4, ...
    EXPECT_GE(accepted, 192);
    EXPECT_LT(accepted, 192 + 80);
}

TEST_F(Npy, WritesWhatItReads) {
    const auto numbers = raw_list<std::int32_t>({1, 2, 3, 4, 5, 6, 7, 8});
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8, DType::u8, DType::i16,
                              DType::i32, DType::i64, DType::boolean}) {
        const TensorView view(numbers.data(), dtype, {2, 2});
        io::OutputFile out(at("y.npy"));
        io::write_npy(out, view);
        out.commit();
        const Array again = read_npy(at("y.npy"));
        EXPECT_EQ(again.view.dtype, dtype);
        EXPECT_EQ(bytes_of(again.view), bytes_of(view)) << name_of(dtype);
    }
}

TEST_F(Npy, WritesStridedViewsRowMajor) {
    const std::vector<float> values{0, 1, 2, 3, 4, 5};
    const std::array<std::int64_t, 2> shape{3, 2}, stride{1, 3};
    io::OutputFile out(at("t.npy"));
    io::write_npy(out, TensorView(values.data(), DType::f32, shape, stride));
    out.commit();
    EXPECT_EQ(values_of<float>(read_npy(at("t.npy")).view), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST_F(Npy, WritesShapesAtTheEdge) {
    const float one = 1;
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {0}, {1}, {3, 0, 2}}) {
        io::OutputFile out(at("e.npy"));
        io::write_npy(out, TensorView(&one, DType::f32, shape));
        out.commit();
        EXPECT_EQ(shape_of(read_npy(at("e.npy")).view), shape);
    }
}

TEST_F(Npy, Strings) {
    const auto strings = [&](const std::string& file) {
        return io::npy_strings(std::as_bytes(std::span(file)), "ids.npy");
    };
    const std::vector<std::uint32_t> cells{'a', 0, 0xe9, 0x1f600, 0x20ac, 0};
    EXPECT_EQ(strings(npy("<U2", "(3,)", raw_list(cells))), (std::vector<std::string>{"a", "é😀", "€"}));
    EXPECT_EQ(strings(npy("|S2", "(2,)", std::string("ab\0\0", 4))), (std::vector<std::string>{"ab", ""}));
    EXPECT_EQ(strings(npy("<i8", "(2,)", raw_list<std::int64_t>({-5, 7}))), (std::vector<std::string>{"-5", "7"}));
    EXPECT_EQ(strings(npy("<i4", "(1,)", raw_list<std::int32_t>({12}))), (std::vector<std::string>{"12"}));
    for (const std::string& bad :
         {npy("<U1", "(1,)", raw(std::uint32_t{0xd800})), npy("<U1", "(1,)", raw(std::uint32_t{0x110000})),
          npy("<f4", "(6,)", six_floats), npy("<U1", "(1, 1)", raw(std::uint32_t{'a'})),
          npy(">U1", "(1,)", raw(std::uint32_t{'a'})), npy("|S0", "(3,)", "")}) {
        expect_error(ErrorCode::data, {"ids.npy"}, [&] { strings(bad); });
    }
}

}  // namespace
}  // namespace rowmax::test
