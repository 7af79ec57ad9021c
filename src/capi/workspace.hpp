// Scratch memory of calls on a device: how much a call wants, and that it gets what the caller gave.
#pragma once

#include <cstddef>
#include <utility>

#include "rowmax/error.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::capi {

/// What a caller says of scratch memory must make sense, whether or not the call needs any.
void check_workspace(const void* memory, std::size_t bytes);

/// The caller's memory, handed out to the call that is told of it by on().
class Workspace {
  public:
    Workspace(void* memory, std::size_t bytes);
    /// The same device, whose scratch memory is this; it must outlive the call. Without memory: the library's pool.
    [[nodiscard]] Device on(Device device);

  private:
    static void* hand_out(void* self, std::size_t bytes);

    void* memory_;
    std::size_t bytes_;
};

/// What the call to be made wants: thrown where it asks for memory, by which time everything is checked and nothing
/// has begun.
class WantedBytes {
  public:
    [[nodiscard]] Device on(Device device) const;
    /// `call` is a function of a Device.
    template <class Call>
    static std::size_t of(const Device& device, Call&& call) {
        try {
            std::forward<Call>(call)(WantedBytes().on(device));
        } catch (const Asked& asked) {
            return asked.bytes;
        }
        throw Error(ErrorCode::internal, "a call did not say how much scratch memory it wants");
    }

  private:
    struct Asked {
        std::size_t bytes;
    };
    [[noreturn]] static void* ask(void* context, std::size_t bytes);
};

}  // namespace rowmax::capi
