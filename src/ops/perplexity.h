// How well a model predicts a text, and how far its predictions are from those of another (or of itself in another type).
//
// A text is read in windows of some tokens, each beginning `stride` after the one before. The first predicts all its tokens
// but the first; each later one those that no window before it predicted. So a token is predicted once, from at least
// window - stride tokens where the text has them. Sums are formed in the order of the text in float64: equal logits give
// equal results.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "engine/engine.h"
#include "io/io.h"

namespace evros::ops {

struct PerplexityOptions {
  int64_t window = 512;     // tokens, at least 2; at most the engine's context
  int64_t stride = 0;       // 1 ... window; 0: half a window
  std::string save_logits;  // a file to write: see measure_perplexity()
  std::string kld;          // a file to compare with
};

/// Kullback-Leibler divergence, in nats, from the saved model's prediction P to this one's Q: the sum of P log(P / Q).
struct Divergence {
  double mean = 0, median = 0, percentile_99 = 0, max = 0;
  double same_top = 0;         // share of tokens for which both have the same most probable one
  double base_perplexity = 0;  // of the saved model on the same tokens
};

struct PerplexityReport {
  uint64_t tokens = 0;  // of the text
  uint64_t scored = 0;  // predictions
  double nats = 0;      // mean of -log(probability)
  double perplexity = 0;
  double error = 0;  // standard error of the perplexity
  std::optional<Divergence> divergence;
};

/// What the engine needs beside the caller's options: the logits of every row, room for a window.
engine::EngineOptions perplexity_options(engine::EngineOptions options, int64_t window);

/// `tokens` are the text; the engine was loaded with perplexity_options(). One session is opened and closed.
///
/// save_logits: a safetensors file with "logits" F32 [predictions][vocabulary] and "targets" I32 [predictions], the tokens
/// that came, written as they are computed; nothing stands under its name before all is well. kld: such a file of the same
/// text, windows and vocabulary (Code::invalid_argument with what differs); read row by row.
Result<PerplexityReport> measure_perplexity(engine::Engine& engine, io::Io& io, std::span<const int32_t> tokens,
                                            const PerplexityOptions& options, const Progress& progress);

}  // namespace evros::ops
