// OutputFolder: a folder that appears whole or not at all. Files are written into a hidden folder beside it, which
// takes its name in one rename.
#pragma once

#include <filesystem>
#include <optional>

#include "io/descriptor.hpp"
#include "io/temporary_names.hpp"

namespace rowmax::io {

class OutputFolder {
  public:
    /// Throws Error(io) when `path` exists, unless it is an empty folder, or when its parent cannot be written to. What
    /// killed processes left beside it is removed (leftovers.hpp).
    explicit OutputFolder(const std::filesystem::path& path);
    ~OutputFolder();  ///< removes what was not committed
    OutputFolder(const OutputFolder&) = delete;
    OutputFolder& operator=(const OutputFolder&) = delete;

    /// Where files are to be written until then.
    [[nodiscard]] const std::filesystem::path& inside() const noexcept { return name_->path(); }
    void commit();

  private:
    bool make(const std::filesystem::path& path);

    std::filesystem::path target_;
    std::optional<TemporaryName> name_;
    Descriptor held_;
    bool committed_ = false;
};

}  // namespace rowmax::io
