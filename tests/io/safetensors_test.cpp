#include <gtest/gtest.h>

#include "io/archive.hpp"
#include "io/builders.hpp"
#include "io/support.hpp"

namespace rowmax::test {
namespace {

const std::string six_floats = raw_list<float>({0, 1, 2, 3, 4, 5});
const std::string one_tensor = R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";

class Safetensors : public FileTest {
  protected:
    [[nodiscard]] std::unique_ptr<io::Archive> open(const std::string& bytes) const {
        return io::open_safetensors(write("x.safetensors", bytes));
    }
    void expect_bad(const std::string& header, std::vector<std::string> parts,
                    const std::string& data = six_floats) const {
        parts.emplace_back("x.safetensors");
        expect_error(ErrorCode::data, parts, [&] {
            const auto archive = open(safetensors(header, data));
            for (const io::ArrayInfo& info : archive->arrays()) archive->array(info.name, {});
        });
    }
};

TEST_F(Safetensors, ReadsInPlace) {
    const auto archive = open(safetensors(
        R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]},)"
        R"("a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},"none":{"dtype":"F64","shape":[0,7],"data_offsets":[24,24]}}  )",
        six_floats));
    EXPECT_EQ(archive->arrays().size(), 3U);
    EXPECT_EQ(values_of<float>(io::aligned(archive->array("b")).view), (std::vector<float>{2, 3, 4, 5}));
    EXPECT_EQ(archive->array("a").view.dtype, DType::i32);
    EXPECT_EQ(archive->array("none").view.numel(), 0);
}

TEST_F(Safetensors, EveryType) {
    const std::pair<const char*, DType> cases[] = {
        {"F16", DType::f16}, {"BF16", DType::bf16}, {"F32", DType::f32}, {"F64", DType::f64}, {"I8", DType::i8},
        {"U8", DType::u8},   {"I16", DType::i16},   {"I32", DType::i32}, {"I64", DType::i64}, {"BOOL", DType::boolean}};
    for (const auto& [name, dtype] : cases) {
        const auto bytes = std::to_string(3 * size_of(dtype));
        const std::string header =
            std::string(R"({"x":{"dtype":")") + name + R"(","shape":[3],"data_offsets":[0,)" + bytes + "]}}";
        const auto archive = open(safetensors(header, std::string(3 * size_of(dtype), '\1')));
        EXPECT_EQ(archive->array("x").view.dtype, dtype) << name;
    }
}

TEST_F(Safetensors, SixteenBitIntegersBecomeFloatsOnlyWhenAsked) {
    const auto archive = open(safetensors(R"({"x":{"dtype":"U16","shape":[12],"data_offsets":[0,24]}})", six_floats));
    EXPECT_EQ(archive->array("x", DType::bf16).view.dtype, DType::bf16);
    expect_error(ErrorCode::data, {"'x'", "U16"}, [&] { archive->array("x"); });
    expect_error(ErrorCode::invalid_type, {"'x'", "U16", "float32"}, [&] { archive->array("x", DType::f32); });
}

TEST_F(Safetensors, TypesOfTomorrowAreListedOnly) {
    const auto archive = open(safetensors(R"({"x":{"dtype":"F4","shape":[48],"data_offsets":[0,24]}})", six_floats));
    EXPECT_EQ(archive->arrays()[0].type.spelled, "F4");
    expect_error(ErrorCode::data, {"'x'", "F4"}, [&] { archive->array("x"); });
}

TEST_F(Safetensors, IntegerIds) {
    const auto archive = open(
        safetensors(R"({"ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}})", raw_list<std::int64_t>({9, -1})));
    EXPECT_EQ(archive->strings("ids"), (std::vector<std::string>{"9", "-1"}));
    const auto floats = open(safetensors(one_tensor, six_floats));
    expect_error(ErrorCode::data, {"'a'", "float32"}, [&] { floats->strings("a"); });
}

TEST_F(Safetensors, HeaderThatLies) {
    const auto tensor = [](const std::string& fields) { return "{\"a\":{" + fields + "}}"; };
    const std::string f32 = R"("dtype":"F32","shape":)";
    const std::pair<std::string, std::string> cases[] = {
        {"", "header"},
        {"[]", "object"},
        {"{", "header"},
        {one_tensor + "{}", "header"},
        {R"({"a":1})", "dtype, shape"},
        {tensor(R"("dtype":"F32","shape":[2,3])"), "dtype, shape"},
        {tensor(f32 + R"([2,3],"data_offsets":[0,24],"more":1)"), "dtype, shape"},
        {tensor(R"("dtype":4,"shape":[2,3],"data_offsets":[0,24])"), "dtype"},
        {tensor(f32 + R"([-2,3],"data_offsets":[0,24])"), "-2"},
        {tensor(f32 + R"([2.5,3],"data_offsets":[0,24])"), "2.5"},
        {tensor(f32 + R"([9223372036854775808,3],"data_offsets":[0,24])"), "9223372036854775808"},
        {tensor(f32 + R"([99999999999999999999999,3],"data_offsets":[0,24])"), "shape"},
        {tensor(f32 + R"([4294967296,4294967296],"data_offsets":[0,24])"), "overflows"},
        {tensor(f32 + R"([0,4294967296,4294967296],"data_offsets":[0,0])"), "overflows"},
        {tensor(f32 + R"([2,3],"data_offsets":[0,25])"), "[0, 25]"},
        {tensor(f32 + R"([2,3],"data_offsets":[24,0])"), "[24, 0]"},
        {tensor(f32 + R"([2,3],"data_offsets":[0])"), "[0]"},
        {tensor(f32 + R"([2,3],"data_offsets":[0,9223372036854775807])"), "9223372036854775807"},
        {tensor(f32 + R"([2,2],"data_offsets":[0,24])"), "16"},
        {tensor(f32 + R"([2,2],"data_offsets":[8,24])"), "starts at 8"},
        {tensor(f32 + R"([2,2],"data_offsets":[0,16])"), "end"},
        {tensor(f32 + R"([[2],3],"data_offsets":[0,24])"), "nested"},
        {tensor(f32 + R"("2","data_offsets":[0,24])"), "list"},
        {tensor(f32 + R"([1,1,1,2,3],"data_offsets":[0,24])"), "5 dimensions"},
        {R"({"a":{"dtype":"F32","shape":[6],"data_offsets":[0,24]},"a":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}})",
         "twice"},
        {tensor(f32 + R"([2,3],"shape":[3,2],"data_offsets":[0,24])"), "twice"},
        {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}})",
         "starts at 8"},
        {R"({"__metadata__":{"a":1}})", "__metadata__"},
        {R"({"__metadata__":3})", "__metadata__"},
        {"{\"\xff\":1}", "header"},
    };
    for (const auto& [header, part] : cases) expect_bad(header, {part});
}

TEST_F(Safetensors, LengthThatLies) {
    for (const std::uint64_t length :
         {std::uint64_t{100}, std::uint64_t{100'000'001}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
        const fs::path path = write("l.safetensors", raw(length) + one_tensor);
        expect_error(ErrorCode::data, {path.string(), "header length", std::to_string(length)},
                     [&] { io::open_safetensors(path); });
    }
}

TEST_F(Safetensors, DeepNestingIsRefusedEarly) {
    expect_bad("{\"a\":" + std::string(1'000'000, '['), {"nested"});
    expect_bad(std::string(1'000'000, '['), {"nested"});
}

TEST_F(Safetensors, DamageIsAnErrorOrRightData) {
    const std::string file = safetensors(one_tensor, six_floats);
    const int accepted = accepted_when_damaged(file, file.size() - six_floats.size(), [&](const std::string& damaged) {
        const auto archive = open(damaged);
        for (const io::ArrayInfo& info : archive->arrays()) {
            EXPECT_EQ(bytes_of(archive->array(info.name).view).size(), six_floats.size());
        }
    });
    EXPECT_LT(accepted, 80);
}

}  // namespace
}  // namespace rowmax::test
