# What other projects find: find_package(rowmax) and pkg-config. tests/install builds consumers of both.
include(CMakePackageConfigHelpers)

install(TARGETS rowmax EXPORT rowmaxTargets)
install(DIRECTORY include/rowmax DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rowmax)
install(EXPORT rowmaxTargets NAMESPACE rowmax:: DESTINATION ${package_dir})
configure_package_config_file(cmake/rowmaxConfig.cmake.in rowmaxConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(rowmaxConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rowmaxConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/rowmaxConfigVersion.cmake
  DESTINATION ${package_dir})

# The prefix is known only when somebody installs, so the file counts from its own place.
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH ROWMAX_PC_PREFIX /${pkgconfig_dir} /)
if(BUILD_SHARED_LIBS)
  set(ROWMAX_PC_CFLAGS "")
else()
  set(ROWMAX_PC_CFLAGS " -DROWMAX_STATIC")
endif()
set(ROWMAX_PC_CUDA "")
if(ROWMAX_CUDA)
  set(ROWMAX_PC_CUDA "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt ")
endif()
configure_file(cmake/rowmax.pc.in rowmax.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rowmax.pc DESTINATION ${pkgconfig_dir})
