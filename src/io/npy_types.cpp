#include "io/npy_types.hpp"

#include <charconv>

#include "io/file_error.hpp"

namespace rowmax::io {

namespace {

struct Row {
    DType dtype;
    char kind;
    std::uint64_t size;
    std::string_view descr;
};

// V2 is how numpy saves ml_dtypes.bfloat16: it knows extension types only by their size.
constexpr Row rows[] = {
    {DType::f16, 'f', 2, "<f2"},     {DType::f32, 'f', 4, "<f4"}, {DType::f64, 'f', 8, "<f8"},
    {DType::bf16, 'V', 2, "<V2"},    {DType::i8, 'i', 1, "|i1"},  {DType::i16, 'i', 2, "<i2"},
    {DType::i32, 'i', 4, "<i4"},     {DType::i64, 'i', 8, "<i8"}, {DType::u8, 'u', 1, "|u1"},
    {DType::boolean, 'b', 1, "|b1"},
};

constexpr std::uint64_t largest_item = std::uint64_t{1} << 30;

}  // namespace

NpyType parse_npy_descr(std::string_view descr) {
    if (descr == "bfloat16") return {'<', 'V', 2};
    NpyType type;
    if (!descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos) {
        type.order = descr[0];
        descr.remove_prefix(1);
    }
    if (descr.empty()) return type;
    type.kind = descr[0];
    std::uint64_t size = 0;
    const char* end = descr.data() + descr.size();
    const auto [stop, error] = std::from_chars(descr.data() + 1, end, size);
    if (error != std::errc() || stop != end || size > largest_item) return type;
    type.size = type.kind == 'U' ? size * 4 : size;  // U counts UCS-4 characters
    return type;
}

StoredType npy_stored_type(std::string_view descr) {
    const NpyType type = parse_npy_descr(descr);
    StoredType stored{std::string(descr), {}, false};
    if (type.order == '>' && type.size > 1) return stored;
    stored.raw16 = type.size == 2 && (type.kind == 'i' || type.kind == 'u' || type.kind == 'V');
    for (const Row& row : rows) {
        if (row.kind == type.kind && row.size == type.size) stored.dtype = row.dtype;
    }
    return stored;
}

DType npy_dtype(std::string_view descr, std::optional<DType> wanted, const std::string& where) {
    const NpyType type = parse_npy_descr(descr);
    if (type.order == '>' && type.size > 1) {
        bad_data(where, "npy descr: '{}' is big endian; save it as little endian", printable(descr));
    }
    return choose_dtype(npy_stored_type(descr), wanted, where);
}

std::string_view npy_descr(DType dtype) {
    for (const Row& row : rows) {
        if (row.dtype == dtype) return row.descr;
    }
    throw Error(ErrorCode::internal, fmt::format("npy has no name for {}", name_of(dtype)));
}

}  // namespace rowmax::io
