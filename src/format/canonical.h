// A checkpoint's tensors under their GGUF names and in GGUF's order (docs/model.md 2.1, 2.5, 4.1, 4.2), as pieces of
// the checkpoint's files. Private to format.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "format/config_json.h"
#include "format/model_file.h"
#include "format/safetensors.h"

namespace evros::format {

/// Fills in what only the tensors say: each PLE layer's constants (read from the int64 buffers, or derived from the
/// seed when the checkpoint ships none), the rows of the concatenated table, and whether the MTP block is there.
/// Several tables are one after the other, so that offsets of the second PLE layer start after the rows of the first.
Status complete_hyper(const SafeTensors& stored, ModelConfig& config, const std::string& path);

/// Every tensor that `hyper` (valid) calls for, in the order of expected_tensors(). Missing, misshapen, mistyped and
/// unknown tensors are all listed in one error; vision tensors are passed over.
Result<std::vector<Tensor>> canonical_tensors(const SafeTensors& stored, const HyperParams& hyper,
                                              const std::string& path);

}  // namespace evros::format
