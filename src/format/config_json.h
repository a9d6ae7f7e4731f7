// config.json and generation_config.json of a checkpoint folder (docs/model.md 1.1). Private to format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/hyper_params.h"
#include "format/model_file.h"
#include "format/ngram_hash.h"

namespace evros::format {

/// A config.json, flat or nested under text_config. What only the tensors can say is still missing from `hyper`: each
/// PLE layer's constants, the table's rows, whether the MTP block is really there. validate() runs when it is complete.
struct ModelConfig {
  HyperParams hyper;  // ple holds the layers alone
  NgramSeed ngram;    // for checkpoints without hash buffers; vocab_base 0 when the config lacks it
  std::vector<int64_t> eos_ids;
  int64_t bos_id = -1, pad_id = -1;
};

/// Every size is bounded enough for the arithmetic that a reader does before validate().
Result<ModelConfig> parse_config(std::string_view text, const std::string& path);

/// generation_config.json: ends of a reply and sampling defaults. `eos` stays empty when it has none.
struct GenerationConfig {
  std::vector<int64_t> eos_ids;
  SamplingDefaults sampling;
};
Result<GenerationConfig> parse_generation_config(std::string_view text, const std::string& path);

}  // namespace evros::format
