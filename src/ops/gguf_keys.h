// HyperParams and text assets as GGUF metadata (docs/model.md 4.3): the other direction of format's reader.
//
// What the published keys cannot say stands in keys of our own, written only where a model differs from the family:
// evros.output_gate_type "silu", evros.norm_topk_prob false, evros.tokenizer.nfc false, evros.eos_token_ids when
// several tokens end a reply. Several PLE layers follow one another in the ple.* arrays.
#pragma once

#include <string>

#include "base/result.h"
#include "format/gguf_writer.h"
#include "format/model_file.h"

namespace evros::ops {

/// Sets general.architecture, every qwen4exp.* key and the evros.* keys of the model's arithmetic. Code::unsupported,
/// and no key is set, when GGUF cannot hold a value exactly; `path` is the model that the sentence names.
Status set_hyper_keys(format::GgufWriter& writer, const format::HyperParams& hyper, const std::string& path);

/// Sets tokenizer.* from the arrays of `text` (nothing when it has none) and its ids. tokenizer_json is not looked at.
void set_text_keys(format::GgufWriter& writer, const format::TextAssets& text);

/// Sets general.sampling.*, as far as there is something.
void set_sampling_keys(format::GgufWriter& writer, const format::SamplingDefaults& sampling);

}  // namespace evros::ops
