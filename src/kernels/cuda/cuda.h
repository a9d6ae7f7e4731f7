// The CUDA kernels: one entry of Kernels each (kernels.h says what it computes, docs/numerics.md by which chain; the host
// code of ref/ is the rule). Here stands only what the backend exports; the entries are declared with those of the other
// tables in ref/ref.h, and in the inline namespace of this instruction set.
//
// What an entry does: it enqueues kernels on queue.stream and returns. It reads nothing through the pointers of Batch
// and of its arguments, which are device memory all of them; rows, sequences and the other scalars are the host's. An error
// of a launch stays where cudaGetLastError() finds it.
#pragma once

#include "kernels/kernels.h"

/// The table named "cuda", of static life. The one symbol that the program looks up in the backend's library.
extern "C" __attribute__((visibility("default"))) const evros::kernels::Kernels* evros_cuda_kernels();
