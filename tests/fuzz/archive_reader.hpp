// Everything that can be asked of an archive.
#pragma once

#include <memory>

#include "fuzz/fuzz.hpp"
#include "io/archive.hpp"

namespace rowmax::fuzz {

template <class Open>
void read_archive(std::string_view bytes, Open&& open) {
    const MemoryFile file(bytes);
    attempt([&] {
        const std::unique_ptr<io::Archive> archive = open(file.path());
        for (const io::ArrayInfo& info : archive->arrays()) {
            for (const auto dtype : {std::optional<DType>(), std::optional(DType::bf16)}) {
                attempt([&] { touch(io::aligned(archive->array(info.name, dtype)).view); });
            }
            attempt([&] { (void)archive->strings(info.name); });
        }
    });
}

}  // namespace rowmax::fuzz
