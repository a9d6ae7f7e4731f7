#include "ops/synth.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/rng.h"
#include "base/str.h"
#include "format/expected_tensors.h"
#include "format/gguf_writer.h"
#include "ops/gguf_keys.h"
#include "ops/large_file.h"
#include "ops/synth_text.h"

namespace evros::ops {
namespace {

using format::GgufValue;
using format::TensorType;

constexpr uint64_t kProbeBytes = 16u << 20;
constexpr uint64_t kTableRows = 320'001'536;

/// docs/model.md 1.4.
constexpr uint64_t kMultipliers[] = {23703573157769, 20109073645365, 8052911324071};
constexpr uint64_t kPrimes[] = {20000003, 20000023, 20000033, 20000047, 20000059, 20000063, 20000069, 20000077,
                                20000081, 20000093, 20000107, 20000147, 20000153, 20000159, 20000161, 20000171};

/// Rows 0..15 of the histories of docs/model.md 1.4.
constexpr uint64_t kVectorRows[] = {
    16410909,  39682429,  55103279,  60931720,  87006904,  116506179, 131512017, 152932897, 169641436, 182022480,
    209277433, 237891023, 256841529, 277007269, 290665954, 300984276, 14605717,  24410875,  49313567,  72177428,
    86060820,  104022010, 130963819, 146886202, 161523077, 195939126, 219424565, 220811782, 248020141, 275228530,
    284297999, 309645223, 15389869,  39778609,  55713969,  62213332,  88817728,  118483999, 133731511, 155458159,
    179763390, 197956758, 205378969, 220499474, 242466248, 265658744, 293662119, 315720898, 2993698,   22555595,
    46746235,  65551934,  83400007,  116956842, 138173940, 148109607, 165238550, 195531093, 219556029, 234233279,
    250491792, 267808615, 280482789, 305617187, 18991213,  39727615,  50096016,  68612008,  93054523,  101202072,
    123423469, 159718776, 177092424, 195482906, 205422805, 236037562, 249008105, 262338198, 293528343, 310077201,
    4582007,   37691206,  44255274,  65455601,  89351473,  103985474, 135938409, 145212418, 163775156, 199680439,
    200044921, 228961047, 240669798, 272736434, 296838250, 317942745};

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return name.ends_with(end); });
}

/// Whether a file that is only lengthened takes no storage where `to` will be.
Status check_holes(io::Io& io, const std::string& to) {
  const std::string probe = to + ".probe";
  EVROS_ASSIGN(std::unique_ptr<io::File> file, io.create(probe));
  const Status lengthened = file->truncate(kProbeBytes);
  const Status synced = lengthened.ok() ? file->sync() : lengthened;
  const uint64_t taken = file->allocated_bytes();
  file.reset();
  EVROS_TRY(io.remove(probe));
  EVROS_TRY(synced);
  if (taken < kProbeBytes / 2) return {};
  return Error{Code::unsupported, cat(to, ": its file system keeps no holes (", taken, " bytes are taken by a file of ",
                                      kProbeBytes, " that was never written), and the whole set is 111 GB long")};
}

}  // namespace

TensorType published_type(const format::TensorShape& shape) {
  const std::string_view name = shape.name;
  const auto on_layers = [&](std::initializer_list<int> layers) {
    return std::any_of(layers.begin(), layers.end(),
                       [&](int layer) { return name.starts_with(cat("blk.", layer, '.')); });
  };
  if (shape.small || is_one_of(name, {".ssm_alpha.weight", ".ssm_beta.weight"})) return TensorType::f32;
  if (name == kSynthTable) return TensorType::iq4_nl;
  if (is_one_of(name, {".indexer.q_proj.weight", ".indexer.k_proj.weight"})) return TensorType::bf16;
  if (is_one_of(name, {".ffn_gate_exps.weight", ".ffn_up_exps.weight"}))
    return on_layers({2}) ? TensorType::q5_k : TensorType::q4_k;
  if (name.ends_with(".ffn_down_exps.weight") && !on_layers({2, 4, 30, 46, 47})) return TensorType::q5_1;
  return TensorType::q8_0;
}

void set_synth_keys(format::GgufWriter& writer, const format::HyperParams& hyper, const std::string& name,
                    const char* description) {
  CHECK(set_hyper_keys(writer, hyper, name).ok());
  const auto text = [&](const char* key, const std::string& value) { writer.set(key, GgufValue::string(value)); };
  text("general.type", "model");
  text("general.name", name);
  text("general.description", description);
  writer.set("general.quantization_version", GgufValue::u32(2));
  writer.set("qwen4exp.ple.image_token_id", GgufValue::u32(static_cast<uint32_t>(synth_end_of_text(hyper.vocab)) + 12));
  set_sampling_keys(writer, {1.0F, 0.95F, 20});
  set_text_keys(writer, synth_text(hyper.vocab));
}

format::HyperParams real_shape() {
  using format::LayerKind;
  format::HyperParams h;
  h.layers = 48, h.hidden = 2560, h.vocab = kSynthVocab, h.context_length = 262144, h.rms_eps = 1e-6F;
  for (int32_t i = 0; i < h.layers; ++i) {
    h.layer_kind.push_back(i % 4 == 3 ? LayerKind::full : LayerKind::linear);
    h.compress_ratio.push_back(i % 4 == 3 ? 4 : 0);
  }
  h.hc_count = 4, h.hc_lowrank = 320;
  h.heads = 24, h.kv_heads = 2, h.key_dim = 256, h.value_dim = 256;
  h.rope_dims = 64, h.rope_theta = 1e7, h.rope_sections = {11, 11, 10, 0};
  h.index_heads = 4, h.index_dim = 128, h.index_budget = 2048;
  h.linear_key_heads = 16, h.linear_value_heads = 48, h.linear_key_dim = 128, h.linear_value_dim = 128,
  h.conv_kernel = 4;
  h.experts = 512, h.experts_used = 10, h.expert_ff = 640, h.shared_ff = 640;
  format::PleLayer ple;
  ple.layer = 1;
  ple.multipliers.assign(std::begin(kMultipliers), std::end(kMultipliers));
  ple.head_vocab.assign(std::begin(kPrimes), std::end(kPrimes));
  uint64_t offset = 0;
  for (const uint64_t prime : kPrimes) {
    ple.head_offset.push_back(offset);
    offset += prime;
  }
  h.ple.push_back(std::move(ple));
  h.ngram_size = 3, h.heads_per_ngram = 8, h.ple_conv_kernel = 4, h.ple_row_width = 160;
  h.ple_eos = kSynthEndOfText, h.ple_table_rows = kTableRows;
  return h;
}

std::vector<uint64_t> synth_rows() {
  std::vector<uint64_t> rows(std::begin(kVectorRows), std::end(kVectorRows));
  for (const uint64_t offset :
       {uint64_t{1} << 31, uint64_t{1} << 32, uint64_t{1} << 33, uint64_t{1} << 34, kTableRows * kSynthRowBytes / 2}) {
    for (const uint64_t row : {offset / kSynthRowBytes - 1, offset / kSynthRowBytes, offset / kSynthRowBytes + 1})
      rows.push_back(row);
  }
  uint64_t first = 0;
  for (const uint64_t prime : kPrimes) {
    rows.push_back(first);
    first += prime;
    rows.push_back(first - 1);
  }
  for (const uint64_t row : {uint64_t{1}, kTableRows - 2, kTableRows - 1}) rows.push_back(row);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

void synth_row(uint64_t row, std::span<std::byte, kSynthRowBytes> out) {
  constexpr uint64_t kBlockBytes = 18;  // f16 scale, 16 bytes of nibbles
  static_assert(kSynthRowBytes % kBlockBytes == 0);
  for (uint32_t block = 0; block < kSynthRowBytes / kBlockBytes; ++block) {
    std::byte* at = out.data() + block * kBlockBytes;
    const auto low = static_cast<uint32_t>(row), high = static_cast<uint32_t>(row >> 32);
    const auto scale = philox({low, high, block, 0}, {1, 2}), nibbles = philox({low, high, block, 1}, {1, 2});
    store(at, static_cast<uint16_t>(0x2000 | (scale[0] & 0x3FF)));  // 2^-7 to 2^-6
    store(at + 2, nibbles);
  }
}

Result<SynthSummary> synth_real(io::Io& io, const std::string& to, const Progress& progress,
                                const std::atomic<bool>* stop) {
  const std::string path = to.ends_with(".gguf") ? to : to + ".gguf";
  EVROS_TRY(check_holes(io, path));
  const format::HyperParams hyper = real_shape();
  format::GgufWriter writer(io, path, kSynthFileBytes, true);
  set_synth_keys(writer, hyper, "Qwen3.8 Flash Next (shape only)",
                 "The shape of a published file with holes instead of weights");
  writer.set("general.size_label", GgufValue::string("512x56B"));
  writer.set("general.file_type", GgufValue::u32(15));
  size_t table = 0, tensors = 0;
  for (format::TensorShape& shape : format::expected_tensors(hyper)) {
    const TensorType type = published_type(shape);
    const bool is_table = shape.name == kSynthTable;
    const size_t number = writer.add({std::move(shape.name), type, shape.ne, shape.dims});
    if (is_table) table = number;
    ++tensors;
  }
  EVROS_TRY(writer.begin());
  const std::vector<uint64_t> rows = synth_rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    EVROS_TRY(check_stop(stop));
    std::byte bytes[kSynthRowBytes];
    synth_row(rows[i], bytes);
    EVROS_TRY(writer.write(table, rows[i] * kSynthRowBytes, bytes));
    report(progress, (i + 1) * kSynthRowBytes, rows.size() * kSynthRowBytes);
  }
  EVROS_TRY(writer.finish());
  return SynthSummary{{writer.paths().begin(), writer.paths().end()}, writer.total_bytes(), tensors};
}

}  // namespace evros::ops
