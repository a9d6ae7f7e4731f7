// evros tokenize: text to ids and back.
#include <cstdio>

#include "base/json_writer.h"
#include "cli/arguments.h"
#include "cli/common.h"
#include "engine/text_kit.h"
#include "text/utf8.h"

namespace evros::cli {
namespace {

std::string hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const unsigned char byte : bytes) out += {kDigits[byte >> 4], kDigits[byte & 15]};
  return out;
}

void print_ids(const text::Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool json_wanted) {
  JsonWriter json;
  json.begin_array();
  for (const int32_t id : ids) {
    if (json_wanted) {
      const std::string bytes(tokenizer.token_bytes(id));
      json.begin_object().key("id").value(id).key("text").value(bytes);
      if (text::find_invalid_utf8(bytes)) json.key("bytes").value(hex(bytes));
      json.end_object();
    } else {
      std::printf("%d\t%s\n", id, json_quote(tokenizer.token_bytes(id)).c_str());
    }
  }
  json.end_array();
  if (json_wanted) std::printf("%s\n", json.take().c_str());
}

}  // namespace

int tokenize(const TokenizeArguments& a) {
  const Result<std::string> path = model_path(a.model);
  if (!path.ok()) return fail(path.error());
  const auto file = format::open_model(io::real_io(), *path);
  if (!file.ok()) return fail(file.error());
  const auto tokenizer = engine::load_tokenizer(**file);
  if (!tokenizer.ok()) return fail(tokenizer.error());
  if (!a.decode.empty()) {
    const Result<std::string> text = tokenizer->decode(a.decode);
    if (!text.ok()) return fail(text.error());
    const std::string line = (a.json ? json_quote(*text) : *text) + "\n";
    std::fwrite(line.data(), 1, line.size(), stdout);
    return 0;
  }
  const Result<std::string> text = read_text(a.has_text, a.text, a.file);
  if (!text.ok()) return fail(text.error());
  const auto ids = tokenizer->encode(*text, a.plain ? text::SpecialTokens::plain : text::SpecialTokens::parse);
  if (!ids.ok()) return fail(ids.error());
  print_ids(*tokenizer, *ids, a.json);
  return 0;
}

}  // namespace evros::cli
