// What an importance matrix says to the quantiser: a weight for every column of a matrix, the mean of the squares of the
// numbers that it is multiplied with, as a share of the mean over all columns. So an error of a weight counts as much as it
// moves the outputs of the text that the matrix was made on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/gguf_writer.h"
#include "format/importance.h"
#include "format/model_file.h"
#include "io/io.h"

namespace evros::ops {

/// Tensors quantised by the matrix and without it, and experts that no row had reached, quantised without it as well.
struct ImportanceUse {
  uint64_t weighted = 0, missing = 0, unreached = 0;
};

/// An importance matrix, or none, for which every tensor is without weights.
class ColumnWeights {
 public:
  /// Reads a file; "" is none. Errors of read_importance().
  static Result<ColumnWeights> load(io::Io& io, const std::string& path);

  /// Code::invalid_argument when the matrix has the tensor in another shape.
  Status check(const format::Tensor& tensor) const;
  /// Of a checked tensor: the weights of each expert's columns (ne[0] of them, from a millionth up, 1 on average); empty for an
  /// expert that no row reached. Nothing at all for a tensor without an entry.
  std::vector<std::vector<float>> of(const format::Tensor& tensor) const;
  /// Adds a tensor that is quantised to `use`.
  void count(const format::Tensor& tensor, ImportanceUse& use) const;

  /// Equal for equal numbers: names and digests of all sums and counts. "" for none.
  std::string identity() const;
  /// Says in a file's keys by what text its tensors were weighted, under the names that llama.cpp uses: quantize.imatrix.*. For
  /// files of which a tensor was.
  void set_keys(format::GgufWriter& writer) const;

 private:
  std::string path_;  // "" for none
  format::ImportanceMatrix matrix_;
};

}  // namespace evros::ops
