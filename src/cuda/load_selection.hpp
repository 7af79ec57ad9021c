// Kernels of operators on points and on an index are loaded with the others, at the first use of a device.
#pragma once

namespace rowmax::cuda {

void load_index_kernels();
void load_point_kernels();
void load_point_tree_kernels();

}  // namespace rowmax::cuda
