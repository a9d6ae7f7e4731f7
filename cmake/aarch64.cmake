# Toolchain: Debian's cross compiler, the libraries that tools/aarch64_sysroot.sh unpacked, and qemu-user to run the result.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

# The C library comes with the compiler; only the other libraries are looked up in the unpacked packages.
get_filename_component(evros_aarch64_root ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-sysroot ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${evros_aarch64_root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${evros_aarch64_root})
set(ENV{PKG_CONFIG_LIBDIR} ${evros_aarch64_root}/usr/lib/aarch64-linux-gnu/pkgconfig:${evros_aarch64_root}/usr/share/pkgconfig)
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${evros_aarch64_root}/usr/include/aarch64-linux-gnu)
