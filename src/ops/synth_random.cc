#include "ops/synth_random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "base/rng.h"
#include "base/str.h"
#include "device/pool.h"
#include "kernels/block_scales.h"
#include "kernels/derive.h"
#include "kernels/kernels.h"
#include "ops/large_file.h"
#include "ops/synth_text.h"

namespace evros::ops {
namespace {

using format::TensorType;

constexpr uint64_t kPieces = 4096;         // a power of two, at most 2^16
constexpr uint64_t kDraws = 8;             // pieces that one call of philox chooses
constexpr uint64_t kSlabBytes = 4u << 20;  // about what a thread writes at once

/// mean + deviation * z, z normal.
struct Law {
  double mean, deviation;
};

Law law_of(const format::TensorShape& shape) {
  const std::string_view name = shape.name;
  if (name.ends_with(".ssm_a")) return {-8, 1};          // decay rates are negative
  if (name.ends_with(".ssm_dt.bias")) return {-4, 0.5};  // steps of about 1/50: a state that neither dies nor grows
  if (shape.dims == 1 && name.find("norm") != std::string_view::npos) return {1, 0.1};
  return {0, 1 / std::sqrt(static_cast<double>(shape.ne[0]))};
}

/// The sum of sixteen bytes, which no one tells from a normal distribution: the same on every machine, as no library
/// function is. At most 6.9 in magnitude.
double normal(const std::array<uint32_t, 4>& bits) {
  constexpr double kMean = 16 * 127.5, kDeviation = 295.600970;  // sqrt(16 * (256^2 - 1) / 12)
  uint32_t sum = 0;
  for (const uint32_t word : bits) sum += (word & 255) + ((word >> 8) & 255) + ((word >> 16) & 255) + (word >> 24);
  return (sum - kMean) / kDeviation;
}

std::array<uint32_t, 2> key_of(uint64_t seed) {
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}

/// kPieces encoded pieces of one type and law.
struct Pieces {
  uint64_t bytes = 0;  // of one
  std::vector<std::byte> data;

  Pieces(TensorType type, Law law, uint64_t seed) {
    const uint64_t elements = std::max(format::type_info(type).block_elements, 32u);
    bytes = format::row_bytes(type, elements);
    data.resize(kPieces * bytes);
    if (kernels::can_quantize(type)) {
      draw_values(type, law, seed, elements);
    } else {
      draw_blocks(type, law, seed);
    }
  }

 private:
  void draw_values(TensorType type, Law law, uint64_t seed, uint64_t elements) {
    std::vector<float> values(kPieces * elements);
    for (size_t i = 0; i < values.size(); ++i) {
      const double z = normal(philox({static_cast<uint32_t>(i), static_cast<uint32_t>(type), 0, 1}, key_of(seed)));
      values[i] = static_cast<float>(law.mean + law.deviation * z);
    }
    kernels::quantize_weights(type, values, data.data());
  }

  /// Random blocks of a type that is only read, with the scale that gives the law's deviation.
  void draw_blocks(TensorType type, Law law, uint64_t seed) {
    const format::TypeInfo& info = format::type_info(type);
    for (size_t i = 0; i < data.size(); i += 16) {
      const auto bits = philox({static_cast<uint32_t>(i), static_cast<uint32_t>(type), 0, 2}, key_of(seed));
      std::memcpy(&data[i], bits.data(), std::min<size_t>(16, data.size() - i));
    }
    const auto set_scales = [&](float scale) {
      for (size_t at = 0; at < data.size(); at += info.block_bytes) kernels::set_scale(type, scale, &data[at]);
    };
    set_scales(1.0f);
    std::vector<float> values(data.size() / info.block_bytes * info.block_elements);
    kernels::dequantize(type, data.data(), values);
    double squares = 0;
    for (const float x : values) squares += static_cast<double>(x) * x;
    set_scales(static_cast<float>(law.deviation / std::sqrt(squares / static_cast<double>(values.size()))));
  }
};

/// One tensor being written.
class RandomTensor {
 public:
  RandomTensor(format::GgufWriter& writer, size_t number, uint64_t bytes, const Pieces& pieces, uint64_t seed)
      : writer_(writer), number_(number), bytes_(bytes), pieces_(pieces), seed_(seed) {
    slab_ = std::max<uint64_t>(kSlabBytes / (kDraws * pieces.bytes), 1) * kDraws * pieces.bytes;
  }

  uint64_t slab_bytes() const { return slab_; }
  uint64_t slabs() const { return (bytes_ + slab_ - 1) / slab_; }

  Status write(uint64_t slab, std::vector<std::byte>& buffer) const {
    const uint64_t from = slab * slab_, size = std::min(slab_, bytes_ - from);
    buffer.resize(size);
    uint64_t draw = from / (kDraws * pieces_.bytes);
    for (uint64_t at = 0; at < size; ++draw) {
      const auto bits =
          philox({static_cast<uint32_t>(draw), static_cast<uint32_t>(draw >> 32), static_cast<uint32_t>(number_), 0},
                 key_of(seed_));
      for (uint64_t i = 0; i < kDraws && at < size; ++i, at += pieces_.bytes) {
        const uint64_t piece = (bits[i / 2] >> (16 * (i % 2))) % kPieces;
        const uint64_t n = std::min(pieces_.bytes, size - at);
        std::copy_n(pieces_.data.data() + piece * pieces_.bytes, n, buffer.data() + at);
      }
    }
    return writer_.write(number_, from, buffer);
  }

 private:
  format::GgufWriter& writer_;
  size_t number_;
  uint64_t bytes_;
  const Pieces& pieces_;
  uint64_t seed_, slab_;
};

Status write_slabs(device::Pool& pool, const RandomTensor& tensor, uint64_t first, uint64_t count) {
  std::vector<Status> status(count);
  pool.parallel(static_cast<int64_t>(count), [&](int64_t begin, int64_t end) {
    std::vector<std::byte> buffer;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      status[i] = tensor.write(first + i, buffer);
  });
  for (Status& slab : status) EVROS_TRY(std::move(slab));
  return {};
}

Status check(const RandomOptions& options) {
  const auto at_least = [](const char* name, uint64_t value, uint64_t least) -> Status {
    if (value >= least) return {};
    return Error{Code::invalid_argument, cat("a model with ", value, ' ', name, "; it must have at least ", least)};
  };
  const auto n = [](int32_t value) { return value < 0 ? uint64_t{0} : static_cast<uint64_t>(value); };
  EVROS_TRY(at_least("layers", n(options.layers), 2));
  EVROS_TRY(at_least("experts", n(options.experts), 10));
  EVROS_TRY(at_least("tokens in the vocabulary", n(options.vocab), kSynthLeastVocab));
  EVROS_TRY(at_least("table rows", options.table_rows, 1024));
  const auto type = format::type_by_name(options.type);
  if (options.type == "mix" || (type && kernels::can_multiply(*type))) return {};
  return Error{Code::invalid_argument, cat("the type ", options.type, " cannot be written")};
}

TensorType type_of(const format::TensorShape& shape, const std::string& wanted) {
  const TensorType published = published_type(shape);
  if (wanted == "mix") return published;
  const TensorType type = *format::type_by_name(wanted);
  if (type == TensorType::f32 || published == TensorType::f32) return TensorType::f32;
  if (published == TensorType::bf16) return published;
  const format::TypeInfo& info = format::type_info(type);
  if (shape.name == kSynthTable && info.quantised) return TensorType::q4_0;
  return shape.ne[0] % info.block_elements == 0 ? type : TensorType::q8_0;
}

bool is_prime(uint64_t n) {
  for (uint64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return n > 1;
}

}  // namespace

std::vector<std::string> random_types() {
  std::vector<std::string> names{"mix"};
  for (uint32_t id = 0; id < 64; ++id) {
    const auto info = format::type_info(id);
    if (!info || !kernels::can_multiply(info->type)) continue;
    names.emplace_back(info->name);
    for (char& c : names.back()) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return names;
}

format::HyperParams random_shape(const RandomOptions& options) {
  format::HyperParams h = real_shape();
  const auto kind = h.layer_kind;
  const auto ratio = h.compress_ratio;
  h.layers = options.layers;
  h.layer_kind.clear(), h.compress_ratio.clear();
  for (size_t i = 0; i < static_cast<size_t>(h.layers); ++i) {
    h.layer_kind.push_back(kind[i % 4]);
    h.compress_ratio.push_back(ratio[i % 4]);
  }
  h.experts = options.experts;
  h.vocab = options.vocab;
  h.ple_eos = synth_end_of_text(h.vocab);
  h.ple_table_rows = options.table_rows;
  format::PleLayer& ple = h.ple[0];
  uint64_t prime = options.table_rows / ple.head_vocab.size();
  for (size_t head = ple.head_vocab.size(); head-- > 0; --prime) {
    while (!is_prime(prime)) --prime;
    ple.head_vocab[head] = prime;
  }
  uint64_t offset = 0;
  for (size_t head = 0; head < ple.head_vocab.size(); ++head) {
    ple.head_offset[head] = offset;
    offset += ple.head_vocab[head];
  }
  return h;
}

Result<SynthSummary> synth_random(io::Io& io, const std::string& to, const RandomOptions& options,
                                  const Progress& progress) {
  EVROS_TRY(check(options));
  const std::string path = to.ends_with(".gguf") ? to : to + ".gguf";
  EVROS_TRY(io.check_target(path));
  const format::HyperParams hyper = random_shape(options);
  EVROS_TRY(format::validate(hyper, path, format::KeyStyle::gguf));
  format::GgufWriter writer(io, path, kSynthFileBytes);
  set_synth_keys(writer, hyper, cat("Random ", options.layers, "x", options.experts, " (", options.type, ")"),
                 "The widths of a published model with random weights");
  const std::vector<format::TensorShape> shapes = format::expected_tensors(hyper);
  std::vector<uint64_t> bytes;
  uint64_t done = 0, total = 0;
  for (const format::TensorShape& shape : shapes) {
    const TensorType type = type_of(shape, options.type);
    bytes.push_back(format::row_bytes(type, shape.ne[0]) * (shape.elements() / shape.ne[0]));
    total += bytes.back();
    writer.add({shape.name, type, shape.ne, shape.dims});
  }
  EVROS_TRY(check_space(io, path, total));
  EVROS_TRY(writer.begin());
  device::Pool pool(device::thread_count(options.threads));
  const auto step = static_cast<uint64_t>(4 * pool.threads());
  std::map<std::tuple<TensorType, double, double>, Pieces> known;
  for (size_t number = 0; number < shapes.size(); ++number) {
    const TensorType type = type_of(shapes[number], options.type);
    const Law law = law_of(shapes[number]);
    const auto pieces = known.try_emplace({type, law.mean, law.deviation}, type, law, options.seed).first;
    const RandomTensor tensor(writer, number, bytes[number], pieces->second, options.seed);
    for (uint64_t slab = 0; slab < tensor.slabs(); slab += step) {
      EVROS_TRY(check_stop(options.stop));
      EVROS_TRY(write_slabs(pool, tensor, slab, std::min(step, tensor.slabs() - slab)));
      report(progress, done + std::min(bytes[number], (slab + step) * tensor.slab_bytes()), total);
    }
    done += bytes[number];
  }
  EVROS_TRY(writer.finish());
  return SynthSummary{{writer.paths().begin(), writer.paths().end()}, writer.total_bytes(), shapes.size()};
}

}  // namespace evros::ops
