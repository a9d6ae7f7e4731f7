# The CUDA backend (option EVROS_CUDA): one shared library, opened at run time, so that the program itself starts on machines
# without a driver. Built from src/kernels/cuda and src/device/cuda.
file(GLOB_RECURSE evros_cuda_sources CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/src/kernels/cuda/*.cu ${CMAKE_SOURCE_DIR}/src/device/cuda/*.cu ${CMAKE_SOURCE_DIR}/src/device/cuda/*.cc)
list(FILTER evros_cuda_sources EXCLUDE REGEX "_(test|fuzz)\\.(cc|cu)$")
if(NOT evros_cuda_sources)
  message(STATUS "EVROS_CUDA: src/kernels/cuda and src/device/cuda hold no sources, so there is no backend to build")
  return()
endif()

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

add_library(evros_cuda SHARED ${evros_cuda_sources})
target_include_directories(evros_cuda PRIVATE ${CMAKE_SOURCE_DIR}/src)
evros_use_codebooks(evros_cuda)
set_target_properties(evros_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static POSITION_INDEPENDENT_CODE ON)
# The float flags are those of docs/numerics.md, the host pass included.
target_compile_options(evros_cuda PRIVATE
  "$<$<COMPILE_LANGUAGE:CUDA>:-ftz=false;-fmad=false;-prec-div=true;-prec-sqrt=true;-Xcompiler=-ffp-contract=off>")
