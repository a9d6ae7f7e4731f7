# The CUDA backend (option EVROS_CUDA): one shared library, opened at run time, so that the program itself starts on machines
# without a driver. Built from src/kernels/cuda and src/device/cuda, beside the program. Its test programs are built here too
# and run by tools/gpu_check.sh, on machines with a GPU: evros_cuda_bits (the kernels) and evros_cuda_lost.
file(GLOB_RECURSE evros_cuda_sources CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/src/kernels/cuda/*.cu ${CMAKE_SOURCE_DIR}/src/kernels/cuda/*.cc ${CMAKE_SOURCE_DIR}/src/device/cuda/*.cu)
list(FILTER evros_cuda_sources EXCLUDE REGEX "_(test|fuzz)\\.(cc|cu)$")

# Before enable_language: unset, CMake 3.25 would take 75; plain 90a would embed PTX as well.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a-real CACHE STRING "GPU architectures of the CUDA backend")
endif()
include(CheckLanguage)
if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "EVROS_CUDA is on, but no nvcc was found on PATH or in /usr/local/cuda/bin; set CMAKE_CUDA_COMPILER")
endif()
enable_language(CUDA)
# CMake 3.25 predates C++20 for CUDA: tell it the flag, which nvcc has.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)

# evros_cuda_target(target): what every target with CUDA sources needs; the float flags are those of docs/numerics.md, the host pass included.
function(evros_cuda_target target)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Static POSITION_INDEPENDENT_CODE ON
    CUDA_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda;-ftz=false;-fmad=false;-prec-div=true;-prec-sqrt=true;-Xcompiler=-ffp-contract=off,-fno-fast-math>")
  # With the C++ runtime inside, the library and the program need the same glibc and nothing else of each other.
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
endfunction()

# The table is that of src/kernels/ref, compiled for this "instruction set" like the vector tables of cmake/kernels.cmake.
add_library(evros_cuda_objects OBJECT ${evros_cuda_sources} ${CMAKE_SOURCE_DIR}/src/kernels/ref/table.cc)
evros_cuda_target(evros_cuda_objects)
target_compile_definitions(evros_cuda_objects PRIVATE EVROS_ISA=cuda)
add_library(evros_cuda SHARED $<TARGET_OBJECTS:evros_cuda_objects>)
evros_cuda_target(evros_cuda)
# Only the two functions of device/cuda_backend.h leave the library, and nothing is left for others to bring.
set(evros_cuda_exports ${CMAKE_SOURCE_DIR}/src/device/cuda/exports.map)
target_link_options(evros_cuda PRIVATE -Wl,--version-script=${evros_cuda_exports} -Wl,-z,defs)
set_target_properties(evros_cuda PROPERTIES LINKER_LANGUAGE CUDA LINK_DEPENDS ${evros_cuda_exports} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
if(TARGET evros)
  add_dependencies(evros evros_cuda)
endif()

if(EVROS_TESTS)
  # A kernel that writes out of bounds: the device is lost, the engine goes on. The backend is linked in, so that the kernels
  # that fail belong to the same runtime.
  file(GLOB evros_cuda_fault_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/device/cuda/*_test.cu)
  add_executable(evros_cuda_lost ${CMAKE_SOURCE_DIR}/tests/cuda/lost.cc ${evros_cuda_fault_kernels}
                 $<TARGET_OBJECTS:evros_cuda_objects>)
  evros_cuda_target(evros_cuda_lost)
  target_link_libraries(evros_cuda_lost PRIVATE engine)
endif()

# The tests of the host's tables and those of src/kernels/cuda, with the CUDA table. The kernels are linked in, and everything else
# but the driver and glibc.
if(TARGET kernels_test)
  find_package(CUDAToolkit REQUIRED)
  add_executable(evros_cuda_bits ${CMAKE_SOURCE_DIR}/src/kernels/cuda/gpu_test.cc
                 ${CMAKE_SOURCE_DIR}/src/kernels/cuda/bits_test.cc $<TARGET_OBJECTS:evros_cuda_objects>
                 "$<FILTER:$<TARGET_OBJECTS:kernels_test>,INCLUDE,/kernels/(ref|cpu)/>")
  set_target_properties(evros_cuda_bits PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(evros_cuda_bits SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(evros_cuda_bits PRIVATE kernels device format GTest::gtest CUDA::cudart_static)
  target_link_options(evros_cuda_bits PRIVATE -static-libstdc++ -static-libgcc)
  add_test(NAME evros_cuda_bits COMMAND evros_cuda_bits)  # says so in one line where there is no GPU
  add_dependencies(evros_tests evros_cuda_bits)
endif()
