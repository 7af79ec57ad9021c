// A folder of per-document .npy files: headers are read when it is opened, data when a block asks for it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "io/file_error.hpp"
#include "io/mapped_file.hpp"
#include "io/npy.hpp"
#include "io/token_store.hpp"

namespace rowmax::io {

namespace {

namespace fs = std::filesystem;

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

std::string_view digits_at(std::string_view text) {
    std::size_t n = 0;
    while (n < text.size() && is_digit(text[n])) ++n;
    return text.substr(0, n);
}

// "doc2" before "doc10". Names that differ only in leading zeros fall back to plain order.
bool natural_less(std::string_view a, std::string_view b) {
    const std::string_view whole_a = a, whole_b = b;
    while (!a.empty() && !b.empty()) {
        const std::string_view run_a = digits_at(a), run_b = digits_at(b);
        if (run_a.empty() || run_b.empty()) {
            if (a[0] != b[0]) return a[0] < b[0];
            a.remove_prefix(1);
            b.remove_prefix(1);
            continue;
        }
        const std::string_view value_a = run_a.substr(std::min(run_a.find_first_not_of('0'), run_a.size()));
        const std::string_view value_b = run_b.substr(std::min(run_b.find_first_not_of('0'), run_b.size()));
        if (value_a.size() != value_b.size()) return value_a.size() < value_b.size();
        if (value_a != value_b) return value_a < value_b;
        a.remove_prefix(run_a.size());
        b.remove_prefix(run_b.size());
    }
    if (a.empty() != b.empty()) return a.empty();
    return whole_a < whole_b;
}

class FolderStore final : public TokenStore {
  public:
    FolderStore(const fs::path& folder, std::vector<fs::path> files, std::optional<DType> wanted)
        : files_(std::move(files)), wanted_(wanted) {
        if (files_.empty()) bad_data(folder.string(), "the folder holds no .npy files");
        for (const fs::path& file : files_) add(read_npy(file, wanted_).view, file);
    }

    [[nodiscard]] std::int64_t count() const override { return static_cast<std::int64_t>(files_.size()); }
    [[nodiscard]] std::int64_t length(std::int64_t item) const override {
        return lengths_[static_cast<std::size_t>(item)];
    }
    [[nodiscard]] std::int64_t max_length() const override { return max_length_; }
    [[nodiscard]] std::int64_t token_count() const override { return token_count_; }
    [[nodiscard]] std::int64_t dim() const override { return dim_; }
    [[nodiscard]] DType dtype() const override { return dtype_; }

    [[nodiscard]] TokenBlock block(std::int64_t first, std::int64_t last) const override {
        struct Memory {
            std::vector<std::int64_t> cu_seqlens{0};
            std::shared_ptr<std::byte[]> tokens;
        };
        const auto memory = std::make_shared<Memory>();
        for (std::int64_t i = first; i < last; ++i) memory->cu_seqlens.push_back(memory->cu_seqlens.back() + length(i));
        const std::int64_t rows = memory->cu_seqlens.back();
        const std::size_t row_bytes = static_cast<std::size_t>(dim_) * size_of(dtype_);
        memory->tokens = allocate_bytes(static_cast<std::size_t>(rows) * row_bytes);
        std::byte* to = memory->tokens.get();
        for (std::int64_t i = first; i < last; ++i) to = copy_document(i, to);
        TokenBlock block;
        block.set.tokens = TensorView(memory->tokens.get(), dtype_, {rows, dim_});
        block.set.cu_seqlens = TensorView(memory->cu_seqlens.data(), DType::i64, {last - first + 1});
        block.copied_bytes = rows * static_cast<std::int64_t>(row_bytes);
        block.owner = memory;
        return block;
    }

  private:
    void add(const TensorView& view, const fs::path& file) {
        if (view.ndim != 2) bad_data(file.string(), "npy shape: {}, a document is [L, d]", view.shape_text());
        if (lengths_.empty()) {
            dim_ = view.shape[1];
            dtype_ = view.dtype;
        }
        check_alike(view, file);
        lengths_.push_back(view.shape[0]);
        max_length_ = std::max(max_length_, view.shape[0]);
        token_count_ += view.shape[0];
    }

    void check_alike(const TensorView& view, const fs::path& file) const {
        if (view.shape[1] == dim_ && view.dtype == dtype_) return;
        bad_data(file.string(), "npy shape and type: {} {}, but {} has dimension {} and {}", name_of(view.dtype),
                 view.shape_text(), files_[0].filename().string(), dim_, name_of(dtype_));
    }

    std::byte* copy_document(std::int64_t item, std::byte* to) const {
        const fs::path& file = files_[static_cast<std::size_t>(item)];
        const Array array = read_npy(file, wanted_);
        if (array.view.ndim != 2 || array.view.shape[0] != length(item)) {
            bad_data(file.string(), "npy shape: {}, but it had {} tokens before", array.view.shape_text(),
                     length(item));
        }
        check_alike(array.view, file);
        const auto bytes = static_cast<std::size_t>(array.view.numel()) * size_of(dtype_);
        if (bytes > 0) std::memcpy(to, array.view.data, bytes);
        return to + bytes;
    }

    std::vector<fs::path> files_;
    std::optional<DType> wanted_;
    std::vector<std::int64_t> lengths_;
    std::int64_t max_length_ = 0;
    std::int64_t token_count_ = 0;
    std::int64_t dim_ = 0;
    DType dtype_ = DType::f32;
};

}  // namespace

std::vector<fs::path> npy_files(const fs::path& folder) {
    std::vector<fs::path> files;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const fs::path& path = entry->path();
        std::error_code ignored;
        const bool hidden = path.filename().string().starts_with('.');
        // A broken link or a pipe is taken too: reading it says what is wrong, where leaving it out would lose a
        // document.
        if (path.extension() == ".npy" && !hidden && !entry->is_directory(ignored)) files.push_back(path);
    }
    if (error) system_failure(folder, "list", error.value());
    std::sort(files.begin(), files.end(),
              [](const fs::path& a, const fs::path& b) { return natural_less(a.stem().string(), b.stem().string()); });
    return files;
}

FolderContents folder_store(const fs::path& folder, std::optional<DType> dtype) {
    const std::vector<fs::path> files = npy_files(folder);
    FolderContents contents;
    for (const fs::path& file : files) contents.stems.push_back(file.stem().string());
    contents.store = std::make_shared<const FolderStore>(folder, files, dtype);
    return contents;
}

}  // namespace rowmax::io
