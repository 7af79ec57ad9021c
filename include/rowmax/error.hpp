// The one exception rowmax throws.
#pragma once

#include <stdexcept>
#include <string>

#include "rowmax/export.hpp"

namespace rowmax {

/// What kind of mistake an Error reports. Each front end maps it once:
/// Python exception, C status, process exit code.
enum class ErrorCode {
    invalid_value,    ///< shape, mask, offsets, range      (Python ValueError)
    invalid_type,     ///< dtype, device, mixed dtypes      (Python TypeError)
    not_implemented,  ///< valid, but no kernel here does it (Python NotImplementedError)
    out_of_memory,    ///<                                  (Python MemoryError)
    device,           ///< the CUDA driver or runtime       (Python RuntimeError)
    data,             ///< the contents of a file are wrong (Python ValueError)
    io,               ///< the system refused: open, read, write, space (Python OSError)
    internal,         ///< a fault of rowmax itself         (Python RuntimeError)
};

/// Its message names the argument (or the file and the field) and the values that disagree.
class ROWMAX_API Error : public std::runtime_error {
  public:
    Error(ErrorCode code, const std::string& message);
    ~Error() override;
    [[nodiscard]] ErrorCode code() const noexcept { return code_; }

  private:
    ErrorCode code_;
};

}  // namespace rowmax
