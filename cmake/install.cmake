# Filled in with find_package(rowmax) and pkg-config.
