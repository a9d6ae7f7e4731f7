// Which model it is, as far as results depend on it (docs/state.md "Model identity").
#pragma once

#include "base/result.h"
#include "base/sha256.h"
#include "format/model_file.h"

namespace evros::engine {

/// SHA-256 over the hyper-parameters, and per tensor in the order of names: name, type, shape, derivation, the first
/// and the last 4 KiB of its bytes. Reads 8 KiB of a tensor (whole rows where columns are reordered); errors are those
/// of the reads.
Result<Sha256Digest> model_identity(const format::ModelFile& file);

}  // namespace evros::engine
