// Kernels that do nothing: what a launch costs the host at least.
#pragma once

namespace rowmax::bench {

const void* empty_kernel();
/// With as many bytes of parameters as rowmax's kernels take.
const void* empty_kernel_of_a_kilobyte();

}  // namespace rowmax::bench
