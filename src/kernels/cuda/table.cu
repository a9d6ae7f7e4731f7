// The table itself is that of ref/table.cc, compiled for this instruction set: every entry of Kernels has a function here.
#include "kernels/cuda/cuda.h"
#include "kernels/ref/ref.h"

const evros::kernels::Kernels* evros_cuda_kernels() { return &evros::kernels::table(); }
