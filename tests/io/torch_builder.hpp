// Files as torch.save writes them, made by hand.
#pragma once

#include <string>
#include <vector>

#include "io/builders.hpp"

namespace rowmax::test {

struct PickledTensor {
    std::string storage = "FloatStorage";
    std::string key = "0";
    unsigned char offset = 0;
    std::string size = "\x4b\x02\x85";    ///< (2,)
    std::string stride = "\x4b\x01\x85";  ///< (1,)
};

inline std::string pickled_text(const std::string& text) {
    return "X" + std::string{static_cast<char>(text.size()), '\0', '\0', '\0'} + text;
}

inline std::string pickled(const PickledTensor& tensor) {
    const std::string id = "(" + pickled_text("storage") + "q\x01" + "ctorch\n" + tensor.storage + "\nq\x02" +
                           pickled_text(tensor.key) + pickled_text("cpu") + "K\x02" + "tq\x05Q";
    const std::string offset = {'K', static_cast<char>(tensor.offset)};
    const std::string hooks = std::string("\x89") + "ccollections\nOrderedDict\n)R";
    return "ctorch._utils\n_rebuild_tensor_v2\n(" + id + offset + tensor.size + tensor.stride + hooks + "tR";
}

/// A file whose pickle is `code`, with one storage.
inline std::string torch_file(const std::string& code, const std::string& storage, bool deflate = false) {
    return zip({{.name = "archive/data.pkl", .data = "\x80\x02" + code + "."},
                {.name = "archive/data/0", .data = storage, .deflate = deflate}});
}

}  // namespace rowmax::test
