// Conversion against other people's converter and quantiser (the micro fixtures), against the folder itself, and when
// things go wrong.
#include "ops/convert.h"

#include <bit>
#include <boost/json.hpp>
#include <cmath>
#include <map>

#include "engine/engine.h"
#include "engine/plan.h"
#include "engine/text_kit.h"
#include "format/gguf.h"
#include "format/gguf_writer.h"
#include "format/random_checkpoint.h"
#include "io/memory_io.h"
#include "ops/test_model_files.h"

namespace evros::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using format::TensorType;
using format::test::RandomCheckpoint;

ConvertOptions as(TensorType type) { return {type, "", true}; }

/// Converts, or fails the test.
void convert_ok(io::Io& io, const std::string& from, const std::string& to, const ConvertOptions& options) {
  const auto done = convert(io, from, to, options, {});
  ASSERT_TRUE(done.ok()) << done.error().message;
}

Error refused(io::Io& io, const std::string& from, const std::string& to, const ConvertOptions& options) {
  const auto done = convert(io, from, to, options, {});
  EXPECT_FALSE(done.ok());
  return done.ok() ? Error{} : done.error();
}

/// Every tensor of `folder` is in `gguf` as F32 with the very bits that the engine would compute from the folder.
void expect_same_floats(const format::ModelFile& folder, const format::ModelFile& gguf) {
  ASSERT_EQ(gguf.tensors().size(), folder.tensors().size());
  for (const format::Tensor& stored : folder.tensors()) {
    const format::Tensor* made = gguf.find(stored.name);
    ASSERT_NE(made, nullptr) << stored.name;
    EXPECT_EQ(made->type, TensorType::f32) << stored.name;
    EXPECT_EQ(made->ne, stored.ne) << stored.name;
    EXPECT_EQ(made->dims, stored.dims) << stored.name;
    const std::vector<float> values = floats_of(folder, stored);
    const auto wanted = std::as_bytes(std::span(values));
    const std::vector<std::byte> seen = bytes_of(gguf, *made);
    EXPECT_TRUE(std::equal(seen.begin(), seen.end(), wanted.begin(), wanted.end())) << stored.name;
  }
}

int64_t ulps(float a, float b) {
  return std::abs(int64_t{std::bit_cast<int32_t>(a)} - int64_t{std::bit_cast<int32_t>(b)});
}

TEST(Convert, F32OfTheFixtureIsWhatTheEngineReadsFromTheFolder) {
  TemporaryFolder out("f32");
  io::Io& io = io::real_io();
  convert_ok(io, cat(EVROS_BINARY_DIR, "/micro/hf"), out.path("m.gguf"), as(TensorType::f32));
  const auto folder = open_or_die(io, cat(EVROS_BINARY_DIR, "/micro/hf")), gguf = open_or_die(io, out.path("m.gguf"));
  EXPECT_EQ(describe(gguf->hyper()), describe(folder->hyper()));
  expect_same_floats(*folder, *gguf);
}

TEST(Convert, F32OfTheFixtureIsTheOtherConvertersFile) {
  TemporaryFolder out("other");
  io::Io& io = io::real_io();
  convert_ok(io, cat(EVROS_BINARY_DIR, "/micro/hf"), out.path("m.gguf"), as(TensorType::f32));
  const auto ours = open_or_die(io, out.path("m.gguf")), theirs = open_or_die(io, micro_gguf("f32"));
  EXPECT_EQ(describe(ours->hyper()), describe(theirs->hyper()));
  ASSERT_EQ(ours->tensors().size(), theirs->tensors().size());
  for (const format::Tensor& tensor : theirs->tensors()) {
    const format::Tensor* made = ours->find(tensor.name);
    ASSERT_NE(made, nullptr) << tensor.name;
    const std::vector<float> a = floats_of(*ours, *made), b = floats_of(*theirs, tensor);
    ASSERT_EQ(a.size(), b.size()) << tensor.name;
    // Two exponential functions: ours errs by 0.69 ulp at most, theirs by 1.51 (blk.1.ssm_a 5, of e^1.75).
    const int64_t allowed = tensor.name.ends_with(".ssm_a") ? 2 : 0;
    for (size_t i = 0; i < a.size(); ++i) ASSERT_LE(ulps(a[i], b[i]), allowed) << tensor.name << ' ' << i;
  }
}

/// Two encodings of the same numbers by quantisers that round halves differently: away from zero (ours, as PyPI gguf)
/// and to even. Blocks may differ by one at exact halves, nowhere else.
void expect_same_q8_0(const std::vector<std::byte>& ours, const std::vector<std::byte>& theirs,
                      const std::vector<float>& values) {
  constexpr size_t kBytes = 34, kElements = 32;
  ASSERT_EQ(ours.size(), values.size() / kElements * kBytes);
  ASSERT_EQ(theirs.size(), ours.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    if (ours[i] == theirs[i]) continue;
    ASSERT_GE(i % kBytes, 2u) << "scale of block " << i / kBytes;
    const std::span<const float> block(values.data() + i / kBytes * kElements, kElements);
    float largest = 0;
    for (const float v : block) largest = std::max(largest, std::abs(v));
    const float scaled = std::abs(block[i % kBytes - 2] * (1.0F / (largest / 127.0F)));
    EXPECT_EQ(scaled - std::floor(scaled), 0.5F);
    EXPECT_EQ(std::abs(static_cast<int8_t>(ours[i])), static_cast<int>(scaled) + 1);
    EXPECT_EQ(std::abs(static_cast<int8_t>(theirs[i])), static_cast<int>(scaled));
  }
}

/// Which tensors of ours have another type than in the file of llama.cpp's tools, by the end of their names.
std::map<std::string, int> expect_same_bytes(const std::string& type_name, TensorType type) {
  TemporaryFolder out(type_name);
  io::Io& io = io::real_io();
  convert_ok(io, cat(EVROS_BINARY_DIR, "/micro/hf"), out.path("m.gguf"), as(type));
  const auto ours = open_or_die(io, out.path("m.gguf")), theirs = open_or_die(io, micro_gguf(type_name));
  const auto exact = open_or_die(io, micro_gguf("f32"));
  std::map<std::string, int> other;
  int same = 0;
  for (const format::Tensor& tensor : theirs->tensors()) {
    const format::Tensor* made = ours->find(tensor.name);
    if (made->type != tensor.type) {
      const size_t block = tensor.name.starts_with("blk.") ? tensor.name.find('.', 4) + 1 : 0;
      ++other[cat(tensor.name.substr(block), ' ', format::type_info(made->type).name)];
    } else if (!tensor.name.ends_with(".ssm_a")) {
      ++same;
      SCOPED_TRACE(tensor.name);
      if (tensor.type != TensorType::q8_0)
        EXPECT_TRUE(bytes_of(*ours, *made) == bytes_of(*theirs, tensor));
      else
        expect_same_q8_0(bytes_of(*ours, *made), bytes_of(*theirs, tensor),
                         floats_of(*exact, *exact->find(tensor.name)));
    }
  }
  EXPECT_EQ(same, 174);
  return other;
}

// ssm_alpha and ssm_beta are F32 and index projections keep their type, as in the published files; what has no whole
// blocks is F16, where the fixture kept F32.
const std::map<std::string, int> kOtherTypes = {
    {"hc_attn_up.weight F16", 8},      {"hc_ffn_up.weight F16", 8},    {"indexer.k_proj.weight BF16", 2},
    {"indexer.q_proj.weight BF16", 2}, {"output_hc_up.weight F16", 1}, {"per_layer_token_embd.weight F16", 1},
    {"ssm_alpha.weight F32", 6},       {"ssm_beta.weight F32", 6}};

TEST(Convert, Q80IsTheOtherQuantisersBytes) { EXPECT_EQ(expect_same_bytes("q8_0", TensorType::q8_0), kOtherTypes); }
TEST(Convert, Q40IsTheOtherQuantisersBytes) { EXPECT_EQ(expect_same_bytes("q4_0", TensorType::q4_0), kOtherTypes); }

// No row of the micro model has 256 elements; evros-tiny has rows of 64 (experts' down), 32 (the table), 256 and more.
TEST(Convert, RowsThatDoNotFitSuperBlocksGetTheTypesOfPublishedFiles) {
  struct Case {
    TensorType type, down, table;
  };
  io::Io& io = io::real_io();
  using enum TensorType;
  for (const Case& c : {Case{q4_k, q5_1, iq4_nl}, Case{q5_k, q5_1, iq4_nl}, Case{q6_k, q8_0, q8_0}}) {
    TemporaryFolder out("super");
    convert_ok(io, source_path("models/evros-tiny"), out.path("t.gguf"), as(c.type));
    const auto made = open_or_die(io, out.path("t.gguf"));
    std::map<TensorType, int> census;
    for (const format::Tensor& tensor : made->tensors()) {
      ++census[tensor.type];
      const bool is_whole = tensor.ne[0] % 256 == 0;
      EXPECT_FALSE(tensor.type == c.type && !is_whole) << tensor.name;
      EXPECT_FALSE(tensor.type == q8_0 && is_whole) << tensor.name;
    }
    EXPECT_EQ(made->find("blk.0.ffn_gate_exps.weight")->type, c.type);
    EXPECT_EQ(made->find("blk.0.ffn_down_exps.weight")->type, c.down);
    EXPECT_EQ(made->find("per_layer_token_embd.weight")->type, c.table);
    EXPECT_GT(census[c.type], 50);
    EXPECT_EQ(census[f16], 0);
  }
}

TEST(Convert, TheTableHasATypeOfItsOwn) {
  io::Io& io = io::real_io();
  using enum TensorType;
  for (const TensorType table : {iq4_nl, q5_1, q4_0, bf16}) {
    TemporaryFolder out("table");
    ConvertOptions options = as(q8_0);
    options.table_type = table;
    convert_ok(io, source_path("models/evros-tiny"), out.path("t.gguf"), options);
    const auto made = open_or_die(io, out.path("t.gguf"));
    EXPECT_EQ(made->find("per_layer_token_embd.weight")->type, table);
    EXPECT_EQ(made->find("token_embd.weight")->type, q8_0);
  }
  ConvertOptions options = as(q8_0);
  options.table_type = q4_k;
  TemporaryFolder out("table");
  const Error error = refused(io, source_path("models/evros-tiny"), out.path("t.gguf"), options);
  EXPECT_NE(error.message.find("the n-gram table cannot be Q4_K: its rows have 32"), std::string::npos)
      << error.message;
}

TEST(Convert, AQuantisedFileIsTheSameWhateverTheNumberOfThreads) {
  io::MemoryIo io;
  RandomCheckpoint checkpoint;
  checkpoint.hidden_size = 64, checkpoint.ple_row_width = 32;
  checkpoint.write(io, "model");
  for (const TensorType type : {TensorType::iq4_nl, TensorType::q8_0}) {
    for (const int threads : {1, 2, 5}) {
      ConvertOptions options = as(type);
      options.threads = threads;
      convert_ok(io, "model", cat("m", threads, ".gguf"), options);
      EXPECT_EQ(io.get(cat("m", threads, ".gguf")), io.get("m1.gguf")) << threads;
    }
  }
}

/// `from` again with every matrix of whole blocks of 64 in a type that has no codec.
int write_unreadable(io::Io& io, const std::string& from, const std::string& to) {
  const auto set = format::open_gguf_set(io, from);
  const auto model = open_or_die(io, from);
  format::GgufWriter writer(io, to);
  for (const auto& [key, value] : set->metadata.entries()) writer.set(key, value);
  int count = 0;
  for (const format::Tensor& tensor : model->tensors()) {
    const bool changed = tensor.dims >= 2 && tensor.ne[0] % 64 == 0 &&
                         tensor.name.find("ffn_gate_inp") == std::string::npos &&
                         tensor.name.find("inject") == std::string::npos &&
                         tensor.name.find("indexer") == std::string::npos;  // kept as it is
    count += changed ? 1 : 0;
    writer.add({tensor.name, changed ? TensorType::q2_0 : tensor.type, tensor.ne, tensor.dims});
  }
  EXPECT_TRUE(writer.begin().ok() && writer.finish().ok());
  return count;
}

TEST(Convert, NamesEveryTensorThatItCannotDecodeInOneMessageAndSoDoesThePlan) {
  io::MemoryIo io;
  RandomCheckpoint checkpoint;
  checkpoint.hidden_size = 64;
  checkpoint.write(io, "model");
  convert_ok(io, "model", "floats.gguf", as(TensorType::f32));
  const int count = write_unreadable(io, "floats.gguf", "m.gguf");
  ASSERT_GT(count, 12);
  const Error error = refused(io, "m.gguf", "out.gguf", as(TensorType::q8_0));
  const auto model = open_or_die(io, "m.gguf");
  const auto plan = engine::make_plan(*model, engine::EngineOptions{});
  ASSERT_FALSE(plan.ok());
  for (const Error& e : {error, plan.error()}) {
    EXPECT_EQ(e.code, Code::unsupported);
    for (const std::string& part : {cat(count, " tensors have type Q2_0"), std::string("every quantised type but")})
      EXPECT_NE(e.message.find(part), std::string::npos) << part << " in " << e.message;
    int named = 0;
    for (const format::Tensor& tensor : model->tensors()) {
      if (tensor.type != TensorType::q2_0) continue;
      EXPECT_NE(e.message.find(cat('"', tensor.name, '"')), std::string::npos) << tensor.name << " in " << e.message;
      ++named;
    }
    EXPECT_EQ(named, count);
    EXPECT_EQ(e.message.find('\n'), std::string::npos);
  }
  EXPECT_FALSE(io.exists("out.gguf"));
}

std::string read(const std::string& below_root) {
  auto text = io::read_file(io::real_io(), source_path(below_root), 1u << 24);
  EXPECT_TRUE(text.ok());
  return std::move(*text);
}

TEST(Convert, TheBundledModelKeepsItsTokenizerTemplateAndDefaults) {
  TemporaryFolder out("tiny");
  io::Io& io = io::real_io();
  convert_ok(io, source_path("models/evros-tiny"), out.path("t.gguf"), as(TensorType::q8_0));
  const auto folder = open_or_die(io, source_path("models/evros-tiny")), gguf = open_or_die(io, out.path("t.gguf"));
  EXPECT_EQ(describe(gguf->hyper()), describe(folder->hyper()));
  EXPECT_EQ(gguf->hyper().mtp_layers, 1);
  EXPECT_EQ(gguf->name(), "evros-tiny");
  EXPECT_EQ(gguf->text().tokenizer_json, "");
  EXPECT_EQ(gguf->text().tokens.size(), 4096u);
  EXPECT_EQ(gguf->text().pre, "qwen35");
  EXPECT_EQ(gguf->text().eos_ids, (std::vector<int64_t>{4089, 4087}));
  EXPECT_EQ(gguf->text().bos_id, 4087);
  EXPECT_EQ(gguf->text().pad_id, 4087);
  EXPECT_EQ(gguf->text().chat_template, read("models/evros-tiny/chat_template.jinja"));
  EXPECT_EQ(gguf->sampling().temperature, 0.7F);
  EXPECT_EQ(gguf->sampling().top_p, 0.9F);
  EXPECT_EQ(gguf->sampling().top_k, 20);
  const auto tokenizer = engine::load_tokenizer(*gguf);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const boost::json::value golden = boost::json::parse(read("models/evros-tiny/tokenizer_golden.json"));
  ASSERT_EQ(golden.as_array().size(), 191u);
  for (const auto& c : golden.as_array()) {
    const auto ids = tokenizer->encode(std::string(c.at("text").as_string()));
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(*ids, boost::json::value_to<std::vector<int32_t>>(c.at("ids"))) << c.at("text");
  }
}

TEST(Convert, DroppingTheDraftHeadLeavesTheTrunk) {
  TemporaryFolder out("nomtp");
  io::Io& io = io::real_io();
  convert_ok(io, source_path("models/evros-tiny"), out.path("with.gguf"), as(TensorType::q8_0));
  convert_ok(io, source_path("models/evros-tiny"), out.path("without.gguf"), {TensorType::q8_0, "trunk", false});
  const auto with = open_or_die(io, out.path("with.gguf")), without = open_or_die(io, out.path("without.gguf"));
  EXPECT_EQ(without->name(), "trunk");
  format::HyperParams hyper = with->hyper();
  hyper.mtp_layers = 0;
  EXPECT_EQ(describe(without->hyper()), describe(hyper));
  for (const format::Tensor& tensor : with->tensors()) {
    const format::Tensor* kept = without->find(tensor.name);
    EXPECT_EQ(kept == nullptr, tensor.name.starts_with("blk.8.")) << tensor.name;
    if (kept == nullptr) continue;
    EXPECT_TRUE(bytes_of(*without, *kept) == bytes_of(*with, tensor)) << tensor.name;
  }
}

/// The models that no fixture is.
std::vector<std::pair<const char*, RandomCheckpoint>> unusual_models() {
  std::vector<std::pair<const char*, RandomCheckpoint>> models(9);
  size_t used = 0;
  const auto next = [&](const char* name) -> RandomCheckpoint& {
    models[used].first = name;
    return models[used++].second;
  };
  RandomCheckpoint& streams = next("two streams, tied embeddings, silu gate, unnormalised router");
  streams.hc_count = 2, streams.tie_word_embeddings = true, streams.output_gate_type = "",
  streams.norm_topk_prob = false;
  RandomCheckpoint& ple = next("two PLE layers with unequal shards, ends of a reply in a list");
  ple.layers = "LLFLLF", ple.ple_layers = {0, 3}, ple.table_shards = 5, ple.eos_ids = {3, 1},
  ple.generation_eos_ids = {5, 3};
  RandomCheckpoint& fused = next("fused experts, nested config, the published prefix, several files, a draft head");
  fused.fused_experts = true, fused.nested_config = true, fused.prefix = "model.language_model.", fused.files = 3,
  fused.mtp = true;
  RandomCheckpoint& heads = next("key and value heads of other sizes, three value heads each");
  heads.linear_key_head_dim = 8, heads.linear_value_head_dim = 32, heads.linear_num_key_heads = 3,
  heads.linear_num_value_heads = 9;
  RandomCheckpoint& bigrams = next("bigrams alone, constants derived, wide convolutions");
  bigrams.ngram_size = 2, bigrams.hash_buffers = false, bigrams.ple_conv_kernel_size = 3,
  bigrams.linear_conv_kernel_dim = 6;
  RandomCheckpoint& fourgrams = next("4-grams, one value head a key head, F16 weights");
  fourgrams.ngram_size = 4, fourgrams.linear_num_value_heads = 2, fourgrams.dtype = "F16";
  RandomCheckpoint& dense = next("dense full layers in no regular order, F32 weights");
  dense.indexer_compress_ratio = 0, dense.layers = "LFFLL", dense.ple_layers = {0}, dense.dtype = "F32";
  RandomCheckpoint& plain = next("no PLE, one stream, no index at all");
  plain.ple_layers = {}, plain.hc_count = 1, plain.indexer_compress_ratio = 0, plain.indexer_n_heads = 0,
  plain.indexer_head_dim = 0;
  RandomCheckpoint& linear = next("linear layers alone, odd widths");
  linear.layers = "LLL", linear.hidden_size = 40, linear.moe_intermediate_size = 20;
  return models;
}

TEST(Convert, UnusualModelsAreTheSameAsFolderAndAsGguf) {
  for (auto& [name, checkpoint] : unusual_models()) {
    SCOPED_TRACE(name);
    io::MemoryIo io;
    checkpoint.write(io, "model");
    convert_ok(io, "model", "m.gguf", as(TensorType::f32));
    const auto folder = open_or_die(io, "model"), gguf = open_or_die(io, "m.gguf");
    ASSERT_TRUE(folder && gguf);
    EXPECT_EQ(describe(gguf->hyper()), describe(folder->hyper()));
    EXPECT_EQ(gguf->text().eos_ids, folder->text().eos_ids);
    expect_same_floats(*folder, *gguf);
  }
}

// F32 holds every BF16 and F16 value, so that a detour over an F32 GGUF must not change a bit of a quantised file.
TEST(Convert, RequantisingAnF32FileGivesTheBytesOfTheDirectWay) {
  for (auto& [name, checkpoint] : unusual_models()) {
    for (const TensorType type : {TensorType::q4_0, TensorType::f16, TensorType::bf16}) {
      SCOPED_TRACE(cat(name, ' ', format::type_info(type).name));
      io::MemoryIo io;
      checkpoint.write(io, "model");
      convert_ok(io, "model", "direct.gguf", as(type));
      convert_ok(io, "model", "f32.gguf", as(TensorType::f32));
      convert_ok(io, "f32.gguf", "detour.gguf", as(type));
      convert_ok(io, "direct.gguf", "again.gguf", as(type));
      const auto direct = open_or_die(io, "direct.gguf"), detour = open_or_die(io, "detour.gguf"),
                 again = open_or_die(io, "again.gguf");
      EXPECT_EQ(describe(detour->hyper()), describe(direct->hyper()));
      for (const format::Tensor& tensor : direct->tensors()) {
        EXPECT_TRUE(bytes_of(*again, *again->find(tensor.name)) == bytes_of(*direct, tensor)) << tensor.name;
        if (tensor.name.ends_with("_proj.weight")) continue;  // index projections keep the type of their source
        EXPECT_TRUE(bytes_of(*detour, *detour->find(tensor.name)) == bytes_of(*direct, tensor)) << tensor.name;
      }
    }
  }
}

TEST(Convert, OtherProgramsKeysSurviveRequantisation) {
  TemporaryFolder out("keys");
  io::Io& io = io::real_io();
  convert_ok(io, micro_gguf("f32"), out.path("m.gguf"), as(TensorType::q8_0));
  const auto before = open_or_die(io, micro_gguf("f32")), after = open_or_die(io, out.path("m.gguf"));
  EXPECT_EQ(after->text().tokens, before->text().tokens);
  EXPECT_EQ(after->text().merges, before->text().merges);
  std::map<std::string, std::string> kept;
  for (const auto& entry : after->metadata()) kept[entry.key] = entry.value;
  for (const auto& entry : before->metadata()) {
    if (entry.key == "general.alignment") continue;  // the default, said
    EXPECT_EQ(kept[entry.key], entry.value) << entry.key;
  }
}

TEST(Convert, MemoryAndTransfersStaySmallWhateverTheTensor) {
  io::MemoryIo memory;
  RandomCheckpoint checkpoint;
  checkpoint.layers = "LL", checkpoint.ngram_vocab_size_base = 200000,
  checkpoint.ple_row_width = 32;  // a table of 51 MB
  checkpoint.write(memory, "model");
  FailingIo io(memory);
  uint64_t last = 0, seen_total = 0, reports = 0;
  const auto done = convert(io, "model", "m.gguf", as(TensorType::q8_0), [&](uint64_t now, uint64_t total) {
    EXPECT_GT(now, last);
    EXPECT_LE(now, total);
    last = now, seen_total = total, ++reports;
  });
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_LT(io.largest_transfer, uint64_t{16} << 20);
  EXPECT_EQ(last, seen_total);
  EXPECT_GT(reports, 20u);
  EXPECT_EQ(done->bytes_written, memory.get("m.gguf").size());
}

TEST(Convert, WhicheverCallFailsNothingIsLeftAndTheOldFileStays) {
  io::MemoryIo memory;
  RandomCheckpoint checkpoint;
  checkpoint.layers = "L", checkpoint.ple_layers = {}, checkpoint.num_experts = 3, checkpoint.hidden_size = 32;
  checkpoint.write(memory, "in/model");
  int64_t steps = 0;
  {
    FailingIo io(memory);
    convert_ok(io, "in/model", "out/m.gguf", as(TensorType::q8_0));
    steps = io.changes;
  }
  const std::string good = memory.get("out/m.gguf");
  ASSERT_GT(steps, 10);
  for (int64_t n = 0; n < steps; ++n) {
    memory.put("out/m.gguf", "old");
    FailingIo io(memory);
    io.fail_at = n;
    const Error error = refused(io, "in/model", "out/m.gguf", as(TensorType::q8_0));
    EXPECT_NE(error.message.find("made to fail"), std::string::npos);
    EXPECT_EQ(*memory.list("out"), std::vector<std::string>{"m.gguf"}) << n;
    // Only the folder's flush comes after the rename.
    EXPECT_EQ(memory.get("out/m.gguf"), n + 1 < steps ? "old" : good) << n;
  }
}

TEST(Convert, ADiskWithoutRoomIsRefusedWithNumbersBeforeAnythingIsWritten) {
  io::MemoryIo memory;
  RandomCheckpoint checkpoint;
  checkpoint.write(memory, "in/model");
  FailingIo io(memory);
  io.free = 1000;
  for (const TensorType type : {TensorType::f32, TensorType::q8_0}) {
    const Error error = refused(io, "in/model", "out/m.gguf", as(type));
    EXPECT_EQ(error.code, Code::io);
    EXPECT_NE(error.message.find("out/m.gguf"), std::string::npos) << error.message;
    EXPECT_NE(error.message.find("1000 B"), std::string::npos) << error.message;
    EXPECT_EQ(io.changes, 0);
  }
  convert_ok(memory, "in/model", "whole.gguf", as(TensorType::q8_0));
  io.free = memory.get("whole.gguf").size();
  convert_ok(io, "in/model", "out/m.gguf", as(TensorType::q8_0));
  // What a stopped conversion has written need not be free a second time.
  memory.put("out/m.gguf.partial", memory.get("whole.gguf"));
  io.free = 0;
  ConvertOptions again = as(TensorType::q8_0);
  again.resume = true;
  convert_ok(io, "in/model", "out/m.gguf", again);
}

TEST(Convert, RefusesWhatCannotBeWritten) {
  io::MemoryIo io;
  RandomCheckpoint checkpoint;
  checkpoint.write(io, "model");
  EXPECT_NE(refused(io, "model", "m.gguf", as(TensorType::q3_k)).message.find("Q3_K"), std::string::npos);
  EXPECT_NE(refused(io, "model", "m.bin", as(TensorType::q8_0)).message.find("m.bin"), std::string::npos);
  EXPECT_NE(refused(io, "nowhere", "m.gguf", as(TensorType::q8_0)).message.find("nowhere"), std::string::npos);
  ASSERT_TRUE(io.make_folder("d.gguf").ok());
  EXPECT_NE(refused(io, "model", "d.gguf", as(TensorType::q8_0)).message.find("is a folder"), std::string::npos);
  convert_ok(io, "model", "m.gguf", as(TensorType::q8_0));
  const std::string before = io.get("m.gguf");
  EXPECT_NE(refused(io, "m.gguf", "m.gguf", as(TensorType::q4_0)).message.find("written over"), std::string::npos);
  EXPECT_EQ(io.get("m.gguf"), before);
  checkpoint.rope_theta = 12345678.9;
  checkpoint.write(io, "model");
  EXPECT_NE(refused(io, "model", "n.gguf", as(TensorType::q8_0)).message.find("12345678.9"), std::string::npos);
  EXPECT_FALSE(io.exists("n.gguf"));
}

TEST(Convert, RefusesATokenizerThatArraysCannotExpress) {
  io::MemoryIo io;
  RandomCheckpoint checkpoint;
  checkpoint.vocab_size = 4096;
  checkpoint.write(io, "model");
  const std::string good = read("models/evros-tiny/tokenizer.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    CHECK(at != std::string::npos);
    io.put("model/tokenizer.json", text.replace(at, from.size(), to));
    return refused(io, "model", "m.gguf", as(TensorType::q8_0));
  };
  EXPECT_EQ(with("\"normalized\": false", "\"normalized\": true").code, Code::unsupported);
  EXPECT_NE(with("(?!\\\\S)", "(?=\\\\s)").message.find("pattern"), std::string::npos);
  io.put("model/tokenizer.json", good);
  convert_ok(io, "model", "m.gguf", as(TensorType::q8_0));
  checkpoint.vocab_size = 4095;
  checkpoint.write(io, "model");
  EXPECT_NE(refused(io, "model", "n.gguf", as(TensorType::q8_0)).message.find("4096"), std::string::npos);
}

TEST(Convert, RowsWithoutATokenBecomeUnusedTokensAndNfcSurvives) {
  io::MemoryIo io;
  RandomCheckpoint checkpoint;
  checkpoint.vocab_size = 4100;
  checkpoint.write(io, "model");
  std::string text = read("models/evros-tiny/tokenizer.json");
  const size_t at = text.find("\"type\": \"NFC\"");
  ASSERT_NE(at, std::string::npos);
  const size_t open = text.rfind('{', at), close = text.find('}', at);
  io.put("model/tokenizer.json", text.replace(open, close - open + 1, "null"));
  convert_ok(io, "model", "m.gguf", as(TensorType::q8_0));
  const auto gguf = open_or_die(io, "m.gguf");
  EXPECT_EQ(gguf->text().tokens.size(), 4100u);
  EXPECT_EQ(gguf->text().tokens[4099], "[PAD4099]");
  EXPECT_EQ(gguf->text().nfc, false);
  const auto tokenizer = engine::load_tokenizer(*gguf);
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_TRUE(tokenizer->is_unused(4099));
  EXPECT_FALSE(tokenizer->is_unused(4095));
}

/// Replaces the first weight of lm_head in the folder's only file, which has BF16 weights.
void spoil(io::MemoryIo& io, uint16_t bits) {
  std::string file = io.get("model/model.safetensors");
  const boost::json::value header = boost::json::parse(file.substr(8, load<uint64_t>(file.data())));
  const auto offset = static_cast<size_t>(header.at("lm_head.weight").at("data_offsets").at(0).as_int64());
  store(file.data() + 8 + load<uint64_t>(file.data()) + offset, bits);
  io.put("model/model.safetensors", file);
}

TEST(Convert, RefusesNumbersThatAreNotFiniteOrDoNotFit) {
  const uint16_t kNan = 0x7FC0, kLarge = 0x4800;  // 131072: beyond F16
  for (const auto& [bits, type, word] :
       std::vector<std::tuple<uint16_t, TensorType, std::string>>{{kNan, TensorType::q8_0, "NaN"},
                                                                  {kNan, TensorType::bf16, "NaN"},
                                                                  {kLarge, TensorType::f16, "too large for F16"}}) {
    io::MemoryIo io;
    RandomCheckpoint checkpoint;
    checkpoint.write(io, "model");
    spoil(io, bits);
    const Error error = refused(io, "model", "m.gguf", as(type));
    EXPECT_EQ(error.code, Code::bad_file);
    EXPECT_NE(error.message.find("lm_head.weight"), std::string::npos) << error.message;
    EXPECT_NE(error.message.find(word), std::string::npos) << error.message;
    EXPECT_FALSE(io.exists("m.gguf") || io.exists("m.gguf.partial"));
  }
}

}  // namespace
}  // namespace evros::ops
