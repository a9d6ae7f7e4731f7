// An importance matrix as llama.cpp's tools exchange it: a GGUF file that says, for every matrix of a model, how large the
// numbers were that its columns were multiplied with. For a matrix NAME it has two F32 tensors: NAME.in_sum2, the sums of
// the squares of the inputs, [columns] for each expert (one for a matrix without experts), and NAME.counts, how many rows
// each expert's sums are of. Keys: general.type = "imatrix", imatrix.datasets, imatrix.chunk_count, imatrix.chunk_size.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/io.h"

namespace evros::format {

/// Sums of one matrix, or of all experts of one tensor.
struct ImportanceEntry {
  uint64_t columns = 0;
  std::vector<float> sums;    // [experts][columns], finite, not negative
  std::vector<float> counts;  // [experts], finite, not negative; 0: no row reached the expert
  bool operator==(const ImportanceEntry&) const = default;
};

struct ImportanceMatrix {
  std::vector<std::string> datasets;               // names of the texts
  uint32_t chunk_count = 0, chunk_size = 0;        // windows, and tokens of one
  std::map<std::string, ImportanceEntry> entries;  // by the tensor's GGUF name
};

/// Reads a file. Tensors of other names and keys that are missing are passed over; Code::bad_file, naming file and tensor,
/// for a file that is no importance matrix, one of two tensors without the other, another type than F32, shapes that do not
/// fit each other, and sums or counts that are negative or not finite.
Result<ImportanceMatrix> read_importance(io::Io& io, const std::string& path);

/// Writes `path`, which must end in ".gguf" (Code::invalid_argument); nothing stands there before all is well. Names of
/// entries are at most 55 bytes long, as those of every model that Evros knows are (CHECKed).
Status write_importance(io::Io& io, const std::string& path, const ImportanceMatrix& matrix);

}  // namespace evros::format
