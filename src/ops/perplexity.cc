#include "ops/perplexity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/bytes.h"
#include "base/json_writer.h"
#include "base/str.h"
#include "format/safetensors.h"

namespace evros::ops {
namespace {

struct Window {
  int64_t begin, end;    // tokens that it reads
  int64_t first_target;  // the first that it predicts; the last is end - 1
  uint64_t index;        // of that prediction
};

std::vector<Window> cut(int64_t tokens, int64_t window, int64_t stride) {
  std::vector<Window> windows;
  uint64_t index = 0;
  for (int64_t begin = 0, done = 0; done < tokens; begin += stride) {
    const int64_t end = std::min(begin + window, tokens);
    const int64_t first = std::min(std::max(done, begin + 1), end);
    windows.push_back({begin, end, first, index});
    index += static_cast<uint64_t>(end - first);
    done = end;
  }
  return windows;
}

/// log(sum of exp).
double log_sum(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - most);
  return most + std::log(sum);
}

size_t top(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// Writes PATH.partial row by row; takes it away again unless finish() renamed it.
class LogitsWriter {
 public:
  LogitsWriter(io::Io& io, std::string path, uint64_t rows, uint64_t vocab, const std::string& windows)
      : io_(io), path_(std::move(path)), rows_(rows), row_bytes_(vocab * sizeof(float)) {
    const uint64_t logits = rows * row_bytes_, all = logits + rows * sizeof(int32_t);
    const auto tensor = [](JsonWriter& json, const char* name, const char* type, std::vector<uint64_t> shape,
                           uint64_t from, uint64_t to) {
      json.key(name).begin_object().key("dtype").value(type).key("shape").begin_array();
      for (const uint64_t n : shape) json.value(n);
      json.end_array().key("data_offsets").begin_array().value(from).value(to).end_array().end_object();
    };
    JsonWriter json;
    json.begin_object();
    json.key("__metadata__").begin_object().key("windows").value(windows).end_object();
    tensor(json, "logits", "F32", {rows, vocab}, 0, logits);
    tensor(json, "targets", "I32", {rows}, logits, all);
    header_ = json.end_object().take();
    header_.resize((header_.size() + 7) / 8 * 8, ' ');
  }
  ~LogitsWriter() {
    if (file_ == nullptr) return;
    file_.reset();
    static_cast<void>(io_.remove(path_ + ".partial").ok());
  }
  LogitsWriter(const LogitsWriter&) = delete;
  LogitsWriter& operator=(const LogitsWriter&) = delete;

  Status begin() {
    EVROS_TRY(io_.check_target(path_));
    EVROS_ASSIGN(file_, io_.create(path_ + ".partial"));
    std::byte length[8];
    store(length, uint64_t{header_.size()});
    EVROS_TRY(file_->write_at(0, length));
    return file_->write_at(8, std::as_bytes(std::span(header_)));
  }
  Status row(uint64_t index, std::span<const float> logits, int32_t target) {
    const uint64_t data = 8 + header_.size();
    EVROS_TRY(file_->write_at(data + index * row_bytes_, std::as_bytes(logits)));
    return file_->write_at(data + rows_ * row_bytes_ + index * sizeof(int32_t), std::as_bytes(std::span(&target, 1)));
  }
  Status finish() {
    EVROS_TRY(file_->sync());
    EVROS_TRY(io_.rename(path_ + ".partial", path_));
    file_.reset();
    return {};
  }

 private:
  io::Io& io_;
  std::string path_, header_;
  uint64_t rows_, row_bytes_;
  std::unique_ptr<io::File> file_;
};

/// A file that LogitsWriter wrote.
class LogitsReader {
 public:
  Status open(io::Io& io, const std::string& path, uint64_t rows, uint64_t vocab, const std::string& windows) {
    path_ = path;
    EVROS_ASSIGN(file_, format::open_safetensors_file(io, path));
    for (const auto& [key, value] : file_.metadata) {
      if (key != "windows" || value == windows) continue;
      return Error{Code::invalid_argument, cat(path, " was made with windows of ", value, " tokens, not ", windows)};
    }
    EVROS_ASSIGN(logits_, find("logits", "F32", {rows, vocab}));
    EVROS_ASSIGN(targets_, find("targets", "I32", {rows}));
    return {};
  }
  Status row(uint64_t index, std::span<float> logits, int32_t target) const {
    const io::File& file = *file_.files[0];
    int32_t saved = 0;
    EVROS_TRY(file.read_at(targets_->offset + index * sizeof saved, std::as_writable_bytes(std::span(&saved, 1))));
    if (saved != target) {
      return Error{Code::invalid_argument, cat(path_, " was made from another text: prediction ", index,
                                               " is of token ", saved, " there and of ", target, " here")};
    }
    EVROS_TRY(file.read_at(logits_->offset + index * logits.size_bytes(), std::as_writable_bytes(logits)));
    const auto finite = [](float x) { return std::isfinite(x); };
    if (std::all_of(logits.begin(), logits.end(), finite)) return {};
    return Error{Code::bad_file, cat(path_, ": the logits of prediction ", index, " are not all finite")};
  }

 private:
  Result<const format::SafeTensor*> find(std::string_view name, std::string_view dtype,
                                         const std::vector<uint64_t>& shape) const {
    const auto text = [](const std::vector<uint64_t>& dims) {
      std::string all;
      for (const uint64_t n : dims) all += cat(all.empty() ? "" : " x ", n);
      return all;
    };
    for (const format::SafeTensor& tensor : file_.tensors) {
      if (tensor.name != name) continue;
      if (tensor.dtype == dtype && tensor.shape == shape) return &tensor;
      return Error{Code::invalid_argument, cat(path_, ": tensor ", name, " is ", tensor.dtype, ' ', text(tensor.shape),
                                               "; this model and text give ", dtype, ' ', text(shape))};
    }
    return Error{Code::invalid_argument, cat(path_, " has no tensor ", name, "; it is no file of saved logits")};
  }

  std::string path_;
  format::SafeTensors file_;
  const format::SafeTensor *logits_ = nullptr, *targets_ = nullptr;
};

/// Takes one prediction after another.
class Scorer {
 public:
  Scorer(LogitsWriter* writer, const LogitsReader* reader, size_t vocab)
      : writer_(writer), reader_(reader), base_(reader == nullptr ? 0 : vocab) {}

  /// Prediction `index`, in order; one that was taken already (a chunk that was run again) is left alone.
  Status add(uint64_t index, std::span<const float> logits, int32_t target) {
    if (index < nats_.size()) return {};
    const auto t = static_cast<size_t>(target);
    const double normaliser = log_sum(logits);
    nats_.push_back(normaliser - static_cast<double>(logits[t]));
    if (writer_ != nullptr) EVROS_TRY(writer_->row(index, logits, target));
    if (reader_ == nullptr) return {};
    EVROS_TRY(reader_->row(index, base_, target));
    const double base_normaliser = log_sum(base_);
    base_nats_ += base_normaliser - static_cast<double>(base_[t]);
    double divergence = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double p = static_cast<double>(base_[i]) - base_normaliser;
      divergence += std::exp(p) * (p - (static_cast<double>(logits[i]) - normaliser));
    }
    divergence_.push_back(divergence);
    same_top_ += top(base_) == top(logits) ? 1 : 0;
    return {};
  }

  PerplexityReport report(uint64_t tokens) {
    PerplexityReport out;
    out.tokens = tokens, out.scored = nats_.size();
    const auto n = static_cast<double>(nats_.size());
    double sum = 0, squares = 0;
    for (const double x : nats_) sum += x;
    out.nats = sum / n;
    for (const double x : nats_) squares += (x - out.nats) * (x - out.nats);
    out.perplexity = std::exp(out.nats);
    out.error = nats_.size() < 2 ? 0 : out.perplexity * std::sqrt(squares / (n - 1) / n);
    if (reader_ == nullptr) return out;
    Divergence d;
    for (const double x : divergence_) d.mean += x / n;
    std::sort(divergence_.begin(), divergence_.end());
    d.median = divergence_[divergence_.size() / 2];
    d.percentile_99 = divergence_[std::min(divergence_.size() - 1, divergence_.size() * 99 / 100)];
    d.max = divergence_.back();
    d.same_top = static_cast<double>(same_top_) / n;
    d.base_perplexity = std::exp(base_nats_ / n);
    out.divergence = d;
    return out;
  }

 private:
  LogitsWriter* writer_;
  const LogitsReader* reader_;
  std::vector<float> base_;
  std::vector<double> nats_, divergence_;
  double base_nats_ = 0;
  uint64_t same_top_ = 0;
};

/// Reads one window in an empty session and hands its predictions on.
Status score_window(engine::Engine& engine, engine::SessionId session, std::span<const int32_t> tokens,
                    const Window& window, Scorer& scorer) {
  const auto vocab = static_cast<size_t>(engine.model().hyper.vocab);
  std::vector<float> logits(vocab);
  for (int64_t at = window.begin, n = 0; at < window.end; at += n) {
    n = std::min<int64_t>(engine.info().plan.pass.rows, window.end - at);
    const engine::Observer observer = [&](const model::Pass& pass, const model::Stage* next) -> Status {
      if (next != nullptr) return {};
      for (int64_t row = std::max<int64_t>(window.first_target - 1 - at, 0); row < n && at + row + 1 < window.end;
           ++row) {
        const float* from = pass.scratch->logits + row * static_cast<int64_t>(vocab);
        EVROS_TRY(engine.device().download(std::as_writable_bytes(std::span(logits)),
                                           reinterpret_cast<const std::byte*>(from)));
        const int64_t target = at + row + 1;
        EVROS_TRY(scorer.add(window.index + static_cast<uint64_t>(target - window.first_target), logits,
                             tokens[static_cast<size_t>(target)]));
      }
      return {};
    };
    const engine::ChunkRow row{session, tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(n))};
    EVROS_ASSIGN(const auto statuses,
                 engine.run_chunk({&row, 1}, {.all_logits = true, .cancel = nullptr, .observer = &observer}));
    EVROS_TRY(statuses[0]);
  }
  return {};
}

Status check(const PerplexityOptions& options, int64_t stride, size_t tokens) {
  if (tokens < 2) {
    return Error{Code::invalid_argument, cat("the text has ", tokens, " tokens; at least 2 are needed to predict one")};
  }
  if (options.window >= 2 && stride >= 1 && stride <= options.window) return {};
  return Error{Code::invalid_argument, cat("a window of ", options.window, " tokens and a stride of ", stride,
                                           "; the window must be at least 2 and the stride 1 to the window")};
}

}  // namespace

engine::EngineOptions perplexity_options(engine::EngineOptions options, int64_t window) {
  options.all_logits = true;
  options.context = window;
  return options;
}

Result<PerplexityReport> measure_perplexity(engine::Engine& engine, io::Io& io, std::span<const int32_t> tokens,
                                            const PerplexityOptions& options, const Progress& progress) {
  const int64_t stride = options.stride > 0 ? options.stride : std::max<int64_t>(options.window / 2, 1);
  EVROS_TRY(check(options, stride, tokens.size()));
  const std::vector<Window> windows = cut(static_cast<int64_t>(tokens.size()), options.window, stride);
  const uint64_t scored =
      windows.back().index + static_cast<uint64_t>(windows.back().end - windows.back().first_target);
  const auto vocab = static_cast<uint64_t>(engine.model().hyper.vocab);
  const std::string cuts = cat(options.window, " every ", stride);
  LogitsWriter writer(io, options.save_logits, scored, vocab, cuts);
  LogitsReader reader;
  const bool saves = !options.save_logits.empty(), compares = !options.kld.empty();
  if (saves) EVROS_TRY(writer.begin());
  if (compares) EVROS_TRY(reader.open(io, options.kld, scored, vocab, cuts));
  Scorer scorer(saves ? &writer : nullptr, compares ? &reader : nullptr, vocab);
  EVROS_ASSIGN(const engine::SessionId session, engine.open());
  Status status;
  for (size_t i = 0; i < windows.size() && status.ok(); ++i) {
    status = engine.reset(session);
    if (status.ok()) status = score_window(engine, session, tokens, windows[i], scorer);
    report(progress, static_cast<uint64_t>(windows[i].end) * sizeof(int32_t), tokens.size_bytes());
  }
  EVROS_TRY(engine.close(session));
  EVROS_TRY(status);
  if (saves) EVROS_TRY(writer.finish());
  return scorer.report(tokens.size());
}

}  // namespace evros::ops
