#include "io/npy.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "io/checked.hpp"
#include "io/file_error.hpp"
#include "io/mapped_file.hpp"
#include "io/npy_types.hpp"

namespace rowmax::io {

namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::uint64_t max_npy_header = std::uint64_t{1} << 16;

// The header is a Python dictionary with three known keys; nothing else is understood, on purpose.
class HeaderParser {
  public:
    HeaderParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

    NpyHeader parse() {
        NpyHeader header;
        bool have_descr = false, have_order = false, have_shape = false;
        expect('{');
        while (!accept('}')) {
            const std::string key = quoted();
            expect(':');
            if (key == "descr" && !std::exchange(have_descr, true)) {
                header.descr = descr();
            } else if (key == "fortran_order" && !std::exchange(have_order, true)) {
                header.fortran_order = boolean();
            } else if (key == "shape" && !std::exchange(have_shape, true)) {
                header.shape = tuple();
            } else {
                bad_data(where_, "npy header: key '{}' is unknown or given twice", printable(key));
            }
            if (!accept(',') && peek() != '}') bad("',' or '}'");
        }
        peek();
        if (at_ < text_.size()) bad("the end");
        if (have_descr && have_order && have_shape) return header;
        bad_data(where_, "npy header: it must have descr, fortran_order and shape, got {}", printable(text_));
    }

  private:
    [[noreturn]] void bad(std::string_view wanted) const {
        bad_data(where_, "npy header: expected {} at byte {} of {}", wanted, at_, printable(text_));
    }

    char peek() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
        return at_ < text_.size() ? text_[at_] : '\0';
    }

    bool accept(char c) {
        if (peek() != c || at_ >= text_.size()) return false;
        ++at_;
        return true;
    }

    void expect(char c) {
        if (!accept(c)) bad(fmt::format("'{}'", c));
    }

    bool accept_word(std::string_view word) {
        peek();
        if (!text_.substr(at_).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }

    std::string quoted() {
        const char quote = peek();
        if (quote != '\'' && quote != '"') bad("a string");
        const std::size_t end = text_.find(quote, at_ + 1);
        if (end == std::string_view::npos) bad("the end of a string");
        std::string value(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
        return value;
    }

    std::string descr() {
        if (peek() == '[') bad_data(where_, "npy header: descr is a structured type, which rowmax does not read");
        return quoted();
    }

    bool boolean() {
        if (accept_word("True")) return true;
        if (accept_word("False")) return false;
        bad("True or False");
    }

    std::vector<std::int64_t> tuple() {
        std::vector<std::int64_t> shape;
        expect('(');
        while (!accept(')')) {
            shape.push_back(number());
            const bool comma = accept(',');
            if (!comma && (peek() != ')' || shape.size() == 1)) bad("','");
        }
        return shape;
    }

    std::int64_t number() {
        peek();
        std::int64_t value = 0;
        const char* first = text_.data() + at_;
        const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
        if (error == std::errc::result_out_of_range || (error == std::errc() && value < 0)) {
            bad_data(where_, "npy header: shape has the size {}, which is not in 0 to 2^63 - 1",
                     printable(std::string_view(first, end)));
        }
        if (error != std::errc()) bad("a number");
        at_ += static_cast<std::size_t>(end - first);
        return value;
    }

    std::string_view text_;
    const std::string& where_;
    std::size_t at_ = 0;
};

// Checks the preamble and returns where the dictionary starts and how long it is.
std::pair<std::uint64_t, std::uint64_t> header_place(std::span<const std::byte> head, const std::string& where) {
    if (head.size() < 10) bad_data(where, "npy header: {} bytes, at least 10 are needed", head.size());
    if (std::string_view(reinterpret_cast<const char*>(head.data()), magic.size()) != magic) {
        bad_data(where, "npy magic: the file does not start with \\x93NUMPY");
    }
    const auto major = load_at<std::uint8_t>(head, 6);
    const auto minor = load_at<std::uint8_t>(head, 7);
    if (major < 1 || major > 3 || minor != 0) {
        bad_data(where, "npy version: {}.{}, rowmax reads 1.0, 2.0 and 3.0", major, minor);
    }
    const std::uint64_t start = major == 1 ? 10 : 12;
    if (head.size() < start) bad_data(where, "npy header: {} bytes, at least {} are needed", head.size(), start);
    const std::uint64_t length = major == 1 ? load_at<std::uint16_t>(head, 8) : load_at<std::uint32_t>(head, 8);
    if (length > max_npy_header) bad_data(where, "npy header length: {}, at most {} is read", length, max_npy_header);
    if (!lies_inside(start, length, head.size())) {
        bad_data(where, "npy header length: {} bytes from byte {}, but there are only {}", length, start, head.size());
    }
    return {start, length};
}

void check_data_size(NpyHeader& header, std::uint64_t file_size, const std::string& where) {
    const auto bytes = tensor_bytes(header.shape, std::max<std::uint64_t>(header.item_size, 1));
    const std::uint64_t available = file_size - header.data_offset;
    const std::string shape = fmt::format("[{}]", fmt::join(header.shape, ", "));
    if (!bytes) bad_data(where, "npy shape: {} of {}-byte elements overflows", shape, header.item_size);
    header.data_bytes = header.item_size > 0 ? *bytes : available;
    if (header.data_bytes != available) {
        bad_data(where, "npy shape: {} of {} needs {} bytes, but {} follow the header", shape, printable(header.descr),
                 header.data_bytes, available);
    }
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> head, std::uint64_t file_size, const std::string& where) {
    const auto [start, length] = header_place(head, where);
    const std::string_view text(reinterpret_cast<const char*>(head.data() + start), length);
    NpyHeader header = HeaderParser(text, where).parse();
    header.item_size = parse_npy_descr(header.descr).size;
    header.data_offset = start + length;
    check_data_size(header, file_size, where);
    return header;
}

NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& where) {
    return parse_npy_header(file, file.size(), where);
}

Array npy_array(std::span<const std::byte> file, std::shared_ptr<const void> owner, const std::string& where,
                std::optional<DType> dtype) {
    const NpyHeader header = parse_npy_header(file, where);
    const DType type = npy_dtype(header.descr, dtype, where);
    if (header.fortran_order && header.shape.size() > 1) {
        bad_data(where, "npy fortran_order: True with shape [{}]; save it in C order (numpy.ascontiguousarray)",
                 fmt::join(header.shape, ", "));
    }
    if (header.shape.size() > TensorView::max_ndim) {
        bad_data(where, "npy shape: {} dimensions, at most {} are read", header.shape.size(), TensorView::max_ndim);
    }
    return {TensorView(file.data() + header.data_offset, type, header.shape), std::move(owner)};
}

Array read_npy(const std::filesystem::path& path, std::optional<DType> dtype) {
    const auto file = MappedFile::open(path);
    return npy_array(file->bytes(), file, path.string(), dtype);
}

}  // namespace rowmax::io
