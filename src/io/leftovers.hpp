// What processes that were killed leave behind, and how it is told from what live ones are writing.
//
// Whoever makes a file or folder of a temporary name holds a lock (flock) on it, which goes with the process, however
// that ends. What bears such a name and can be locked is a leftover: the next writer in that folder removes it. Where
// the file system knows no locks nobody can lock, and nothing is removed.
#pragma once

#include <filesystem>

namespace rowmax::io {

/// Locks an open file or folder until the descriptor is closed; false when another process has. Where the file system
/// knows no locks nothing is locked, and nobody will remove it.
bool lock(int descriptor) noexcept;

/// Locks a file or folder that has just been made under a temporary name, until `descriptor` is closed. False when
/// another process took it for a leftover in between: then it is gone, and another name is needed.
bool hold(int descriptor, const std::filesystem::path& path) noexcept;

/// Removes the leftovers in a folder, "" being the current one: those of this machine's processes that nobody holds.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace rowmax::io
