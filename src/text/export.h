// A tokenizer.json as the arrays of a GGUF header: what a converter writes.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace evros::text {

/// The same tokenizer with `model`, `pre`, `tokens`, `token_types`, `merges` and `nfc` filled in and no tokenizer_json;
/// eos_ids and chat_template are carried over. A spec without tokenizer_json is returned as it is. Ids from the last
/// token up to `rows` become unused tokens "[PADn]", because other readers take the number of tokens for the model's
/// rows.
///
/// Code::unsupported when the arrays cannot say what the file says: a pre-tokenizer pattern without a name, an added
/// token that is matched in normalised text. Code::bad_file when there are more than `rows` tokens. Both encoders then
/// give the same ids for every text.
Result<TokenizerSpec> to_arrays(const TokenizerSpec& spec, size_t rows);

}  // namespace evros::text
