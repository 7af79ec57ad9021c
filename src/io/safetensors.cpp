// safetensors: a length, a JSON header, the bytes of the tensors without gaps.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "io/archive.hpp"
#include "io/checked.hpp"
#include "io/file_error.hpp"
#include "io/mapped_file.hpp"

namespace rowmax::io {

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t max_header = 100'000'000;  // as the reference implementation

struct TypeRow {
    std::string_view name;
    std::uint64_t size;
    std::optional<DType> dtype;
    bool raw16 = false;
};

constexpr TypeRow type_rows[] = {
    {"F16", 2, DType::f16},   {"BF16", 2, DType::bf16},     {"F32", 4, DType::f32},         {"F64", 8, DType::f64},
    {"I8", 1, DType::i8},     {"U8", 1, DType::u8},         {"I16", 2, DType::i16, true},   {"I32", 4, DType::i32},
    {"I64", 8, DType::i64},   {"BOOL", 1, DType::boolean},  {"U16", 2, std::nullopt, true}, {"U32", 4, std::nullopt},
    {"U64", 8, std::nullopt}, {"F8_E4M3", 1, std::nullopt}, {"F8_E5M2", 1, std::nullopt},
};

const TypeRow* find_type(std::string_view name) {
    const auto* row = std::find_if(std::begin(type_rows), std::end(type_rows),
                                   [&](const TypeRow& candidate) { return candidate.name == name; });
    return row == std::end(type_rows) ? nullptr : row;
}

StoredType stored_type(const std::string& name) {
    const TypeRow* row = find_type(name);
    return row == nullptr ? StoredType{name, {}, false} : StoredType{name, row->dtype, row->raw16};
}

// nlohmann keeps the last of two equal keys and any depth; both are refused here while parsing.
class StrictParse {
  public:
    explicit StrictParse(const std::string& where) : where_(where) {}

    Json operator()(std::string_view text) {
        const auto watch = [this](int depth, Json::parse_event_t event, Json& parsed) {
            if (event == Json::parse_event_t::key) check_key(depth, parsed.get_ref<const std::string&>());
            if (depth > 3) bad_data(where_, "safetensors header: JSON nested deeper than a tensor's shape");
            return true;
        };
        try {
            return Json::parse(text, watch);
        } catch (const Json::exception& error) {
            bad_data(where_, "safetensors header: {}", printable(error.what()));
        }
    }

  private:
    void check_key(int depth, const std::string& key) {
        if (depth == 1) inner_.clear();
        if ((depth == 1 ? outer_ : inner_).insert(key).second) return;
        bad_data(where_, "safetensors header: '{}' is given twice", printable(key));
    }

    const std::string& where_;
    std::set<std::string> outer_, inner_;
};

class Safetensors final : public Archive {
  public:
    explicit Safetensors(std::shared_ptr<const MappedFile> file)
        : file_(std::move(file)), where_(file_->path().string()) {
        const std::string_view text = header_text();
        const std::uint64_t data_start = 8 + text.size();
        const Json header = StrictParse(where_)(text);
        if (!header.is_object()) bad_data(where_, "safetensors header: it is no JSON object");
        for (const auto& [name, value] : header.items()) {
            if (name == "__metadata__") {
                check_metadata(value);
            } else {
                infos_.push_back(tensor_info(name, value, data_start));
            }
        }
        check_tiling(data_start);
    }

    const std::vector<ArrayInfo>& arrays() const override { return infos_; }

    Array array(std::string_view name, std::optional<DType> dtype) const override {
        const ArrayInfo* info = find(name);
        if (info == nullptr) bad_data(where_, "there is no tensor '{}'", printable(name));
        const std::string where = tensor(info->name);
        const DType type = choose_dtype(info->type, dtype, where);
        if (info->shape.size() > TensorView::max_ndim) {
            bad_data(where, "shape: {} dimensions, at most {} are read", info->shape.size(), TensorView::max_ndim);
        }
        return {TensorView(file_->bytes().data() + info->offset, type, info->shape), file_};
    }

    std::vector<std::string> strings(std::string_view name) const override {
        const Array ids = aligned(array(name, {}));
        const bool wide = ids.view.dtype == DType::i64;
        if (ids.view.ndim != 1 || !(wide || ids.view.dtype == DType::i32)) {
            bad_data(tensor(std::string(name)), "expected a list of integers, got {} {}", name_of(ids.view.dtype),
                     ids.view.shape_text());
        }
        std::vector<std::string> out;
        for (std::int64_t i = 0; i < ids.view.shape[0]; ++i) {
            out.push_back(std::to_string(wide ? static_cast<const std::int64_t*>(ids.view.data)[i]
                                              : static_cast<const std::int32_t*>(ids.view.data)[i]));
        }
        return out;
    }

  private:
    std::string tensor(const std::string& name) const {
        return fmt::format("{}: tensor '{}'", where_, printable(name));
    }

    std::string_view header_text() const {
        const auto bytes = file_->bytes();
        if (bytes.size() < 8) bad_data(where_, "safetensors: {} bytes, at least 8 are needed", bytes.size());
        const auto length = load_at<std::uint64_t>(bytes, 0);
        if (length > max_header || !lies_inside(8, length, bytes.size())) {
            bad_data(where_, "safetensors header length: {}, in a file of {} bytes (at most {} is read)", length,
                     bytes.size(), max_header);
        }
        return {reinterpret_cast<const char*>(bytes.data() + 8), length};
    }

    void check_metadata(const Json& value) const {
        const auto text = [](const Json& entry) { return entry.is_string(); };
        if (value.is_object() && std::all_of(value.begin(), value.end(), text)) return;
        bad_data(where_, "safetensors __metadata__: expected an object of strings");
    }

    std::vector<std::int64_t> numbers(const Json& entry, const char* field, const std::string& name) const {
        const auto found = entry.find(field);
        if (found == entry.end() || !found->is_array()) bad_data(tensor(name), "{}: expected a list of numbers", field);
        std::vector<std::int64_t> values;
        for (const Json& value : *found) {
            if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
                bad_data(tensor(name), "{}: {} is not a whole number in 0 to 2^63 - 1", field, printable(value.dump()));
            }
            values.push_back(value.get<std::int64_t>());
        }
        return values;
    }

    ArrayInfo tensor_info(const std::string& name, const Json& entry, std::uint64_t data_start) const {
        if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() || entry.size() != 3) {
            bad_data(tensor(name), "expected dtype, shape and data_offsets");
        }
        ArrayInfo info{name, stored_type(entry["dtype"].get<std::string>()), numbers(entry, "shape", name), 0, 0,
                       false};
        const std::vector<std::int64_t> offsets = numbers(entry, "data_offsets", name);
        const std::uint64_t data_size = file_->bytes().size() - data_start;
        if (offsets.size() != 2 || offsets[0] > offsets[1] || static_cast<std::uint64_t>(offsets[1]) > data_size) {
            bad_data(tensor(name), "data_offsets: [{}], in {} bytes of data", fmt::join(offsets, ", "), data_size);
        }
        info.offset = data_start + static_cast<std::uint64_t>(offsets[0]);
        info.bytes = static_cast<std::uint64_t>(offsets[1] - offsets[0]);
        check_bytes(info);
        return info;
    }

    void check_bytes(const ArrayInfo& info) const {
        const TypeRow* row = find_type(info.type.spelled);
        const auto needed = tensor_bytes(info.shape, row != nullptr ? row->size : 1);
        const std::string shape = fmt::format("[{}]", fmt::join(info.shape, ", "));
        if (!needed) bad_data(tensor(info.name), "shape: {} {} overflows", printable(info.type.spelled), shape);
        if (row == nullptr || *needed == info.bytes) return;  // a type of tomorrow: listed, but never read
        bad_data(tensor(info.name), "data_offsets: {} {} needs {} bytes, but {} are given", info.type.spelled, shape,
                 *needed, info.bytes);
    }

    // Tensors fill the data without gaps and overlaps.
    void check_tiling(std::uint64_t data_start) const {
        std::vector<const ArrayInfo*> order;
        for (const ArrayInfo& info : infos_) order.push_back(&info);
        std::sort(order.begin(), order.end(), [](const ArrayInfo* a, const ArrayInfo* b) {
            return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
        });
        std::uint64_t at = data_start;
        for (const ArrayInfo* info : order) {
            if (info->offset != at) {
                bad_data(tensor(info->name), "data_offsets: starts at {}, but the tensor before it ends at {}",
                         info->offset - data_start, at - data_start);
            }
            at += info->bytes;
        }
        if (at != file_->bytes().size()) {
            bad_data(where_, "safetensors: the tensors end at byte {}, the file at {}", at, file_->bytes().size());
        }
    }

    std::shared_ptr<const MappedFile> file_;
    std::string where_;
    std::vector<ArrayInfo> infos_;
};

}  // namespace

std::unique_ptr<Archive> open_safetensors(const std::filesystem::path& path) {
    return std::make_unique<Safetensors>(MappedFile::open(path));
}

}  // namespace rowmax::io
