#include "text/detokenizer.h"

#include "base/str.h"

namespace evros::text {

Result<std::string> Detokenizer::push(int32_t id) {
  if (!tokenizer_.contains(id)) {
    return Error{Code::invalid_argument,
                 cat("token id ", id, " is outside the vocabulary of ", tokenizer_.vocab_size(), " tokens")};
  }
  std::string out;
  if (!(skip_special_ && tokenizer_.is_control(id))) decoder_.push(tokenizer_.token_bytes(id), out);
  return out;
}

std::string Detokenizer::flush() {
  std::string out;
  decoder_.flush(out);
  return out;
}

}  // namespace evros::text
