// What keeps a model from running, or from running with text: said in one sentence that names the file and the key.
#include "engine/text_kit.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/str.h"
#include "engine/weight_loader.h"
#include "format/test_model.h"
#include "kernels/kernels.h"

namespace evros::engine {
namespace {

using format::GgufValue;
using format::test::RawGguf;

/// The small model with a byte-level vocabulary: a token for each byte, one merge, an end.
RawGguf with_text() {
  format::HyperParams h = format::test::small_hyper();
  h.vocab = 258;
  RawGguf g = format::test::small_gguf(h);
  std::vector<std::string> tokens;
  std::vector<int32_t> types(258, 1);
  const auto alphabet = [](int code) {  // a code point below 0x800
    if (code < 0x80) return std::string(1, static_cast<char>(code));
    return std::string{static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
  };
  int next = 256;  // GPT-2's alphabet: bytes that print stand for themselves, the others follow from 256
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    tokens.push_back(alphabet(prints ? byte : next++));
  }
  tokens.push_back("ab");
  tokens.push_back("<end>");
  types.back() = 3;
  g.set("tokenizer.ggml.model", GgufValue::string("gpt2"));
  g.set("tokenizer.ggml.pre", GgufValue::string("qwen35"));
  g.set("tokenizer.ggml.tokens", GgufValue::array(tokens));
  g.set("tokenizer.ggml.token_type", GgufValue::array(std::span<const int32_t>(types)));
  g.set("tokenizer.ggml.merges", GgufValue::array(std::vector<std::string>{"a b"}));
  g.set("tokenizer.ggml.eos_token_id", GgufValue::u32(257));
  return g;
}

std::unique_ptr<format::ModelFile> open(const RawGguf& g) {
  io::MemoryIo io;
  io.put("m.gguf", g.bytes());
  auto model = format::open_model(io, "m.gguf");
  EXPECT_TRUE(model.ok()) << model.error().message;
  return std::move(*model);
}

TEST(TextKit, AWholeTokenizerHasNoProblem) {
  EXPECT_EQ(text_problems(*open(with_text())), std::vector<std::string>{});
  EXPECT_EQ(*load_tokenizer(*open(with_text()))->encode("abc<end>"), (std::vector<int32_t>{256, 'c', 257}));
}

// Each of them once ran and answered garbage, or without end.
TEST(TextKit, ATokenizerThatLacksAPartOrContradictsTheModelIsRefusedByFileAndKey) {
  const auto without = [](const char* key) { return [key](RawGguf& g) { g.erase(key); }; };
  const auto with = [](const char* key, GgufValue value) { return [key, value](RawGguf& g) { g.set(key, value); }; };
  std::vector<int32_t> types(258, 1);
  types[9] = 77;
  const uint32_t ends[] = {257, 99999};
  const std::pair<std::function<void(RawGguf&)>, const char*> cases[] = {
      {without("tokenizer.ggml.merges"), "tokenizer.ggml.merges"},
      {with("tokenizer.ggml.merges", GgufValue::array(std::vector<std::string>{})), "tokenizer.ggml.merges"},
      {with("tokenizer.ggml.merges", GgufValue::array(std::vector<std::string>{"a_b"})), "tokenizer.ggml.merges"},
      {without("tokenizer.ggml.token_type"), "tokenizer.ggml.token_type"},
      {with("tokenizer.ggml.token_type", GgufValue::array(std::span<const int32_t>(types))),
       "tokenizer.ggml.token_type"},
      {without("tokenizer.ggml.model"), "tokenizer.ggml.model"},
      {without("tokenizer.ggml.pre"), "tokenizer.ggml.pre"},
      {with("tokenizer.ggml.pre", GgufValue::string("llama3")), "tokenizer.ggml.pre"},
      {with("tokenizer.ggml.eos_token_id", GgufValue::u32(99999)), "tokenizer.ggml.eos_token_id"},
      {with("evros.eos_token_ids", GgufValue::array(std::span<const uint32_t>(ends))), "evros.eos_token_ids"},
      {with("tokenizer.chat_template", GgufValue::string("{% for x %}")), "chat template"},
  };
  for (const auto& [change, key] : cases) {
    RawGguf g = with_text();
    change(g);
    const auto model = open(g);
    const std::vector<std::string> problems = text_problems(*model);
    ASSERT_EQ(problems.size(), 1u) << key;
    EXPECT_TRUE(problems[0].starts_with("m.gguf: ")) << problems[0];
    EXPECT_NE(problems[0].find(key), std::string::npos) << problems[0];
    if (std::string_view(key) == "chat template") continue;  // raw text can still be continued
    EXPECT_EQ(load_tokenizer(*model).error().message, problems[0]);
  }
}

TEST(TextKit, AModelWithoutAnyTokenizerSaysThatItRunsWithTokenIds) {
  const std::vector<std::string> problems = text_problems(*open(format::test::small_gguf()));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("token ids only"), std::string::npos) << problems[0];
}

// The reader of files and the kernels must agree on what runs, or one of them accepts what the other cannot do.
TEST(Types, FilesAndKernelsAgreeOnWhatRuns) {
  for (uint32_t id = 0; id < 256; ++id) {
    const auto info = format::type_info(id);
    if (!info) continue;
    EXPECT_EQ(format::can_run(info->type), kernels::can_multiply(info->type)) << info->name;
  }
}

TEST(Types, EveryWeightWithoutAKernelIsNamedInOneMessageByType) {
  format::HyperParams h = format::test::small_hyper();
  h.hidden = 128;
  RawGguf g = format::test::small_gguf(h);
  std::vector<std::string> names;
  uint64_t offset = 0;
  for (auto& t : g.tensors) {
    uint64_t elements = 1;
    for (const uint64_t n : t.ne) elements *= n;
    const bool matrix = t.ne.size() >= 2 && t.ne[0] == 128 && t.name.find("conv") == std::string::npos &&
                        t.name.find("inject") == std::string::npos && t.name.find("gate_inp") == std::string::npos;
    if (matrix) t.type = names.size() % 2 == 0 ? 41 : 42;  // Q1_0, Q2_0: known, and without a kernel
    if (matrix) names.push_back(t.name);
    t.offset = offset;
    offset += (t.type == 41 ? elements / 128 * 18 : t.type == 42 ? elements / 64 * 18 : elements * 4) + 31;
    offset -= offset % 32;
  }
  g.data_bytes = offset;
  ASSERT_GT(names.size(), 12u);
  const Status status = check_types(*open(g));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::unsupported);
  for (const std::string& name : names)
    EXPECT_NE(status.error().message.find(cat('"', name, '"')), std::string::npos) << name;
  EXPECT_NE(status.error().message.find("tensors have type Q1_0"), std::string::npos) << status.error().message;
  EXPECT_NE(status.error().message.find("tensors have type Q2_0"), std::string::npos);
}

}  // namespace
}  // namespace evros::engine
