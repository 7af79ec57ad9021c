#include "io/torch_file.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "io/checked.hpp"
#include "io/file_error.hpp"
#include "io/mapped_file.hpp"
#include "io/zip.hpp"

namespace rowmax::io {

namespace {

struct Nothing {};  ///< None, and what no tensor is made of
struct Mark {};
struct Global {
    std::string name;  ///< "module name"
};
struct Storage {
    DType dtype = DType::f32;
    std::string key;
};
struct Tensor {
    Storage storage;
    std::int64_t offset = 0;
    std::vector<std::int64_t> size;
    std::vector<std::int64_t> stride;
};
struct Pickled;
using Sequence = std::vector<Pickled>;
struct Pickled {
    std::variant<Nothing, Mark, std::int64_t, std::string, Global, Storage, Tensor, Sequence> value;
};

constexpr std::pair<std::string_view, DType> storage_types[] = {
    {"torch FloatStorage", DType::f32},    {"torch HalfStorage", DType::f16}, {"torch BFloat16Storage", DType::bf16},
    {"torch DoubleStorage", DType::f64},   {"torch IntStorage", DType::i32},  {"torch LongStorage", DType::i64},
    {"torch ShortStorage", DType::i16},    {"torch CharStorage", DType::i8},  {"torch ByteStorage", DType::u8},
    {"torch BoolStorage", DType::boolean},
};

/// A machine for the few instructions that tensors are pickled with. It does not remember lists and tuples, of which a
/// few bytes could otherwise make any number.
class Unpickler {
  public:
    Unpickler(std::span<const std::byte> code, std::string where) : code_(code), where_(std::move(where)) {}

    Pickled run() {
        while (true) {
            if (++steps_ > most_steps) bad_data(where_, "pickle: more than {} instructions", most_steps);
            const auto op = number<std::uint8_t>();
            if (op == '.') return pop();
            execute(op);
        }
    }

  private:
    static constexpr int most_steps = 2000;

    void execute(std::uint8_t op) {
        switch (op) {
            case 0x80: number<std::uint8_t>(); return;  // PROTO
            case '(': return push({Mark{}});
            case ')':
            case ']': return push({Sequence{}});  // EMPTY_TUPLE, EMPTY_LIST
            case '}':
            case 'N':
            case 0x88:
            case 0x89: return push({Nothing{}});  // EMPTY_DICT, NONE, NEWTRUE, NEWFALSE
            case 'K': return push({std::int64_t{number<std::uint8_t>()}});
            case 'M': return push({std::int64_t{number<std::uint16_t>()}});
            case 'J': return push({std::int64_t{number<std::int32_t>()}});
            case 0x8a: return push({long_number()});
            case 'X': return push({text(number<std::uint32_t>())});
            case 'c': return push({global()});
            case 'q': return remember(number<std::uint8_t>());
            case 'r': return remember(number<std::uint32_t>());
            case 'h': return push(remembered(number<std::uint8_t>()));
            case 'j': return push(remembered(number<std::uint32_t>()));
            case 0x85:
            case 0x86:
            case 0x87: return push({last(std::size_t{op} - 0x84)});  // TUPLE1, 2, 3
            case 't': return push({since_mark()});
            case 'a': return append(last(1));
            case 'e': return append(since_mark());
            case 'u': since_mark(); return;  // SETITEMS: what dictionaries hold is not looked at
            case 's': last(2); return;       // SETITEM
            case 'b': last(1); return;       // BUILD
            case 'Q': return push({storage(pop())});
            case 'R': return reduce();
            default: bad_data(where_, "pickle: instruction {:#x}, which no tensor needs", op);
        }
    }

    template <class T>
    T number() {
        if (code_.size() < sizeof(T)) bad_data(where_, "pickle: it ends in the middle of an instruction");
        const T value = load_at<T>(code_, 0);
        code_ = code_.subspan(sizeof(T));
        return value;
    }

    std::string text(std::size_t size) {
        if (code_.size() < size) bad_data(where_, "pickle: a text of {} bytes, where {} are left", size, code_.size());
        std::string value(reinterpret_cast<const char*>(code_.data()), size);
        code_ = code_.subspan(size);
        return value;
    }

    std::string line() {
        const auto end = std::find(code_.begin(), code_.end(), std::byte{'\n'});
        if (end == code_.end()) bad_data(where_, "pickle: a name that does not end");
        std::string value = text(static_cast<std::size_t>(end - code_.begin()));
        number<std::uint8_t>();
        return value;
    }

    Global global() {
        const std::string module = line();
        return {module + " " + line()};
    }

    std::int64_t long_number() {
        const auto size = number<std::uint8_t>();
        if (size > 8) bad_data(where_, "pickle: a number of {} bytes", size);
        std::uint64_t value = 0;
        for (int i = 0; i < size; ++i) value |= std::uint64_t{number<std::uint8_t>()} << (8 * i);
        if (size > 0 && size < 8 && (value >> (8 * size - 1)) != 0) value -= std::uint64_t{1} << (8 * size);
        return static_cast<std::int64_t>(value);
    }

    void push(Pickled value) { stack_.push_back(std::move(value)); }
    Pickled& top() {
        if (stack_.empty()) bad_data(where_, "pickle: it takes more than it has");
        return stack_.back();
    }
    Pickled pop() {
        Pickled value = std::move(top());
        stack_.pop_back();
        return value;
    }
    void remember(std::uint32_t key) {
        if (!std::holds_alternative<Sequence>(top().value)) memo_[key] = top();
    }
    Pickled remembered(std::uint32_t key) {
        const auto found = memo_.find(key);
        if (found == memo_.end()) bad_data(where_, "pickle: it mentions a list, a tuple or nothing again ({})", key);
        return found->second;
    }
    Sequence last(std::size_t count) {
        if (stack_.size() < count) bad_data(where_, "pickle: it takes more than it has");
        const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
        Sequence values(std::make_move_iterator(first), std::make_move_iterator(stack_.end()));
        stack_.erase(first, stack_.end());
        return values;
    }
    Sequence since_mark() {
        std::size_t count = 0;
        while (count < stack_.size() && !std::holds_alternative<Mark>(stack_[stack_.size() - 1 - count].value)) ++count;
        if (count == stack_.size()) bad_data(where_, "pickle: a mark is missing");
        Sequence values = last(count);
        stack_.pop_back();
        return values;
    }
    void append(Sequence values) {
        auto* list = std::get_if<Sequence>(&top().value);
        if (list == nullptr) bad_data(where_, "pickle: it appends to what is no list");
        list->insert(list->end(), std::make_move_iterator(values.begin()), std::make_move_iterator(values.end()));
    }

    /// ("storage", type, key, place, elements)
    Storage storage(const Pickled& id) {
        const auto* parts = std::get_if<Sequence>(&id.value);
        const auto* type = parts == nullptr || parts->size() < 3 ? nullptr : std::get_if<Global>(&(*parts)[1].value);
        const auto* key = type == nullptr ? nullptr : std::get_if<std::string>(&(*parts)[2].value);
        if (key == nullptr) bad_data(where_, "pickle: a reference to something else than a storage");
        for (const auto& [name, dtype] : storage_types) {
            if (type->name == name) return {dtype, *key};
        }
        bad_data(where_, "a storage of type '{}'", printable(type->name));
    }

    void reduce() {
        const Pickled arguments = pop();
        const Pickled function = pop();
        const auto* name = std::get_if<Global>(&function.value);
        const auto* given = std::get_if<Sequence>(&arguments.value);
        if (name == nullptr || given == nullptr || name->name != "torch._utils _rebuild_tensor_v2" ||
            given->size() < 4) {
            return push({Nothing{}});
        }
        const auto* storage = std::get_if<Storage>(&(*given)[0].value);
        if (storage == nullptr) bad_data(where_, "pickle: a tensor without a storage");
        push({Tensor{*storage, integer((*given)[1]), integers((*given)[2]), integers((*given)[3])}});
    }

    std::int64_t integer(const Pickled& value) {
        const auto* number = std::get_if<std::int64_t>(&value.value);
        if (number == nullptr || *number < 0) bad_data(where_, "pickle: a size that is no number");
        return *number;
    }
    std::vector<std::int64_t> integers(const Pickled& value) {
        const auto* values = std::get_if<Sequence>(&value.value);
        if (values == nullptr || values->size() > TensorView::max_ndim) {
            bad_data(where_, "pickle: a tensor's shape of more than {} dimensions, or none",
                     static_cast<int>(TensorView::max_ndim));
        }
        std::vector<std::int64_t> numbers;
        for (const Pickled& each : *values) numbers.push_back(integer(each));
        return numbers;
    }

    std::span<const std::byte> code_;
    std::string where_;
    std::vector<Pickled> stack_;
    std::map<std::uint32_t, Pickled> memo_;
    int steps_ = 0;
};

class TorchFile {
  public:
    explicit TorchFile(const std::filesystem::path& path)
        : file_(MappedFile::open(path)), where_(path.string()), members_(read_zip_directory(file_->bytes(), where_)) {}

    std::vector<Array> tensors() {
        const Pickled root = Unpickler(contents("/data.pkl"), where_).run();
        std::vector<Array> arrays;
        const Sequence one{root};
        const auto* several = std::get_if<Sequence>(&root.value);
        for (const Pickled& each : several != nullptr ? *several : one) {
            const auto* tensor = std::get_if<Tensor>(&each.value);
            if (tensor == nullptr) bad_data(where_, "it holds something else than tensors");
            arrays.push_back(array(*tensor));
        }
        return arrays;
    }

  private:
    /// Of the one member whose name ends so, after the archive's own.
    std::span<const std::byte> contents(const std::string& end) {
        for (const ZipMember& member : members_) {
            if (member.name.find('/') + end.size() != member.name.size() || !member.name.ends_with(end)) continue;
            if (member.deflated) bad_data(where_, "{} is compressed", printable(member.name));
            return file_->bytes().subspan(member.data_offset, member.stored_size);
        }
        bad_data(where_, "{} is missing: this is no file of torch.save", end.substr(1));
    }

    Array array(const Tensor& tensor) {
        const std::span<const std::byte> bytes = contents("/data/" + tensor.storage.key);
        const TensorView view(bytes.data(), tensor.storage.dtype, std::span(tensor.size));
        const auto size = size_of(tensor.storage.dtype);
        const auto needed = tensor_bytes(tensor.size, size);
        const auto offset = static_cast<std::uint64_t>(tensor.offset);
        if (tensor.stride.size() != tensor.size.size() || !needed || offset > bytes.size() / size ||
            !lies_inside(offset * size, *needed, bytes.size())) {
            bad_data(where_, "a tensor {} from element {} on, in a storage of {} bytes", view.shape_text(),
                     tensor.offset, bytes.size());
        }
        const TensorView strided(bytes.data() + offset * size, tensor.storage.dtype, std::span(tensor.size),
                                 std::span(tensor.stride));
        if (!strided.contiguous()) bad_data(where_, "a tensor {} that is not contiguous", view.shape_text());
        return aligned({TensorView(strided.data, strided.dtype, std::span(tensor.size)), file_});
    }

    std::shared_ptr<const MappedFile> file_;
    std::string where_;
    std::vector<ZipMember> members_;
};

}  // namespace

std::vector<Array> read_torch(const std::filesystem::path& path) {
    return TorchFile(path).tensors();
}

}  // namespace rowmax::io
