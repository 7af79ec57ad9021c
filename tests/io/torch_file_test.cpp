// torch.save's files: tensors in place, and every way to lie about them.
#include "io/torch_file.hpp"

#include <gtest/gtest.h>

#include "io/support.hpp"
#include "io/torch_builder.hpp"

namespace rowmax::io {
namespace {

using namespace test;

const std::string two_floats = raw_list<float>({1.5F, -2});

class TorchFileTest : public FileTest {
  protected:
    [[nodiscard]] std::vector<Array> read(const std::string& bytes) const { return read_torch(write("t.pt", bytes)); }
    void expect_wrong(const std::string& bytes, const std::vector<std::string>& parts) const {
        expect_error(ErrorCode::data, parts, [&] { (void)read(bytes); });
    }
};

TEST_F(TorchFileTest, ATensorIsReadInPlace) {
    const std::vector<Array> arrays = read(torch_file(pickled({}), two_floats));
    ASSERT_EQ(arrays.size(), 1U);
    EXPECT_EQ(arrays[0].view.dtype, DType::f32);
    EXPECT_EQ(arrays[0].view.shape_text(), "[2]");
    EXPECT_EQ(static_cast<const float*>(arrays[0].view.data)[1], -2);
}

TEST_F(TorchFileTest, TuplesListsTypesAndOffsets) {
    const std::string one = "\x4b\x01\x85";
    const std::string pair = pickled({}) + pickled({.offset = 1, .size = one}) + "\x86";
    const std::vector<Array> arrays = read(torch_file(pair, two_floats));
    ASSERT_EQ(arrays.size(), 2U);
    EXPECT_EQ(*static_cast<const float*>(arrays[1].view.data), -2);
    EXPECT_EQ(read(torch_file("](" + pickled({}) + "e", two_floats)).size(), 1U);
    EXPECT_EQ(read(torch_file(pickled({.storage = "ByteStorage"}), two_floats))[0].view.dtype, DType::u8);
    EXPECT_TRUE(read(torch_file(")", two_floats)).empty());
}

TEST_F(TorchFileTest, WhatIsWrongIsNamed) {
    expect_wrong("no zip", {"t.pt", "zip"});
    expect_wrong(zip({{.name = "archive/other", .data = "x"}}), {"data.pkl is missing"});
    expect_wrong(torch_file("N", two_floats), {"something else than tensors"});
    expect_wrong(torch_file(pickled({.storage = "QInt8Storage"}), two_floats), {"torch QInt8Storage"});
    expect_wrong(torch_file(pickled({.key = "1"}), two_floats), {"data/1 is missing"});
    expect_wrong(torch_file(pickled({.offset = 1}), two_floats), {"[2]", "element 1", "8 bytes"});
    expect_wrong(torch_file(pickled({.size = "\x4b\x09\x85"}), two_floats), {"[9]", "8 bytes"});
    expect_wrong(torch_file(pickled({.stride = "\x4b\x02\x85"}), two_floats), {"not contiguous"});
    expect_wrong(torch_file(pickled({.size = "\x4a\xff\xff\xff\xff\x85"}), two_floats), {"no number"});
    expect_wrong(torch_file(pickled({}), std::string(200, 'x'), true), {"compressed"});
    expect_wrong(torch_file("cos\nsystem\n(" + pickled_text("true") + "tR", two_floats), {"something else"});
    expect_wrong(torch_file("\x81", two_floats), {"instruction 0x81"});
    expect_wrong(torch_file("h\x01", two_floats), {"again"});
    expect_wrong(torch_file("t", two_floats), {"mark"});
    expect_wrong(torch_file("\x87", two_floats), {"takes more"});
    expect_wrong(torch_file(std::string(3000, 'N'), two_floats), {"2000 instructions"});
}

// A few bytes must not become any number of values: lists are not remembered.
TEST_F(TorchFileTest, TuplesOfTuples) {
    std::string code = ")q\x01";
    for (int i = 0; i < 60; ++i) code += "h\x01h\x01\x86q\x01";
    expect_wrong(torch_file(code, two_floats), {"again"});
    expect_wrong(torch_file(std::string(1900, ')') + std::string(90, '\x85'), two_floats), {"something else"});
}

TEST_F(TorchFileTest, CutAnywhere) {
    const std::string code = "\x80\x02" + pickled({}) + ".";
    for (std::size_t size = 0; size + 1 < code.size(); ++size) {
        const std::string bytes =
            zip({{.name = "a/data.pkl", .data = code.substr(0, size)}, {.name = "a/data/0", .data = two_floats}});
        expect_error(ErrorCode::data, {"t.pt"}, [&] { (void)read(bytes); });
    }
}

}  // namespace
}  // namespace rowmax::io
