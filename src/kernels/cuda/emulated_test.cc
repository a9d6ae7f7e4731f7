// The CUDA kernels as emulate.h runs them, on machines without a GPU: one translation unit of all of them. They stand in the
// place of the host's tables in the tests of the folders ref/ and cpu/ and of bits_test.cc.
#include "kernels/cuda/attention.cu"
#include "kernels/cuda/cache.cu"
#include "kernels/cuda/conv.cu"
#include "kernels/cuda/delta.cu"
#include "kernels/cuda/elementwise.cu"
#include "kernels/cuda/experts.cu"
#include "kernels/cuda/matmul.cu"
#include "kernels/cuda/norm.cu"
#include "kernels/cuda/ple.cu"
#include "kernels/cuda/qsa.cu"
#include "kernels/cuda/quantize.cu"
#include "kernels/cuda/router.cu"
#include "kernels/cuda/rows.cu"
#include "kernels/cuda/table.cu"
#include "kernels/ref/table.cc"
#include "kernels/test_support.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // One long case of the host's tables would take half the time; bits_test.cc has its parts.
  auto& filter = testing::GTEST_FLAG(filter);
  if (filter == "*") filter = "-Attention.IsTheSoftmaxOverTheStoredRowsHoweverTheTokensAreCut";
  evros::kernels::other_tables() = {evros_cuda_kernels()};
  return RUN_ALL_TESTS();
}
