#include "capi/workspace.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "rowmax/error.hpp"

namespace rowmax::capi {

namespace {

constexpr std::uintptr_t workspace_alignment = 256;

[[noreturn]] void refuse_workspace(const std::string& message) {
    throw Error(ErrorCode::invalid_value, message);
}

}  // namespace

void check_workspace(const void* memory, std::size_t bytes) {
    if (memory != nullptr || bytes == 0) return;
    refuse_workspace(fmt::format("workspace is a null pointer, but workspace_bytes is {}", bytes));
}

Workspace::Workspace(void* memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {
    check_workspace(memory, bytes);
    if (reinterpret_cast<std::uintptr_t>(memory) % workspace_alignment != 0) {
        refuse_workspace(fmt::format("workspace must lie at a multiple of {} bytes, got {}", workspace_alignment,
                                     static_cast<const void*>(memory)));
    }
}

Device Workspace::on(Device device) {
    if (memory_ == nullptr) return device;
    device.allocate = &Workspace::hand_out;
    device.context = this;
    return device;
}

void* Workspace::hand_out(void* self, std::size_t bytes) {
    const auto& own = *static_cast<const Workspace*>(self);
    if (bytes <= own.bytes_) return own.memory_;
    refuse_workspace(fmt::format("workspace_bytes is {}, but this call needs {}", own.bytes_, bytes));
}

Device WantedBytes::on(Device device) const {
    device.allocate = &WantedBytes::ask;
    device.always_asks = true;
    return device;
}

void* WantedBytes::ask(void* /*context*/, std::size_t bytes) {
    throw Asked{bytes};
}

}  // namespace rowmax::capi
