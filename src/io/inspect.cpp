#include "io/inspect.hpp"

#include "io/archive.hpp"
#include "io/mapped_file.hpp"
#include "io/npy.hpp"
#include "io/npy_types.hpp"
#include "io/token_source.hpp"
#include "io/token_store.hpp"
#include "rowmax/corpus.hpp"

namespace rowmax::io {

namespace {

namespace fs = std::filesystem;

ArrayInfo npy_info(const MappedFile& file, std::string name) {
    const NpyHeader header = parse_npy_header(file.bytes(), file.path().string());
    return {std::move(name), npy_stored_type(header.descr), header.shape, header.data_offset, header.data_bytes, false};
}

FileSummary inspect_folder(const fs::path& path) {
    FileSummary summary{"folder", 0, {}};
    for (const fs::path& entry : npy_files(path)) {
        const auto file = MappedFile::open(entry);
        summary.file_bytes += file->bytes().size();
        summary.arrays.push_back(npy_info(*file, entry.stem().string()));
    }
    return summary;
}

ArrayInfo section_info(const CorpusSection& section) {
    const TensorView& view = section.view;
    ArrayInfo info;
    info.name = section.name;
    info.type.spelled = name_of(view.dtype);
    info.type.dtype = view.dtype;
    info.shape.assign(view.shape.begin(), view.shape.begin() + view.ndim);
    info.offset = section.offset;
    info.bytes = section.bytes;
    return info;
}

}  // namespace

FileSummary inspect(const fs::path& path) {
    const std::string format = detect_format(path);
    if (format == "folder") return inspect_folder(path);
    const auto file = MappedFile::open(path);
    FileSummary summary{format, file->bytes().size(), {}};
    if (format == "npy") {
        summary.arrays.push_back(npy_info(*file, path.stem().string()));
    } else if (format == "corpus") {
        const Corpus corpus = Corpus::open(path);
        for (const CorpusSection& section : corpus.sections()) summary.arrays.push_back(section_info(section));
    } else if (format == "npz") {
        summary.arrays = open_npz(path, 0)->arrays();  // headers alone are inflated
    } else {
        summary.arrays = open_safetensors(path)->arrays();
    }
    return summary;
}

}  // namespace rowmax::io
