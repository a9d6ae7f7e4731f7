// evros perplexity: how well a model predicts a text.
#include "ops/perplexity.h"

#include <cstdio>

#include "base/json_writer.h"
#include "cli/arguments.h"
#include "cli/common.h"
#include "cli/progress_bar.h"
#include "engine/text_kit.h"
#include "io/io.h"

namespace evros::cli {
namespace {

void print_json(const ops::PerplexityReport& r, const engine::EngineInfo& info) {
  JsonWriter json(1);
  json.begin_object().key("model").value(info.model).key("numerics").value(info.numerics);
  json.key("tokens").value(r.tokens).key("scored").value(r.scored).key("nats").value(r.nats);
  json.key("perplexity").value(r.perplexity).key("error").value(r.error);
  if (r.divergence) {
    const ops::Divergence& d = *r.divergence;
    json.key("kld").begin_object().key("mean").value(d.mean).key("median").value(d.median);
    json.key("percentile_99").value(d.percentile_99).key("max").value(d.max).key("same_top").value(d.same_top);
    json.key("base_perplexity").value(d.base_perplexity).end_object();
  }
  std::printf("%s\n", json.end_object().take().c_str());
}

void print_text(const ops::PerplexityReport& r) {
  std::printf("perplexity %.4f +- %.4f (%.6f nats a token, %s of %llu predicted)\n", r.perplexity, r.error, r.nats,
              counted(r.scored, "token").c_str(), static_cast<unsigned long long>(r.tokens));
  if (!r.divergence) return;
  const ops::Divergence& d = *r.divergence;
  std::printf("saved model: perplexity %.4f; this one has %+.3f %%\n", d.base_perplexity,
              100 * (r.perplexity / d.base_perplexity - 1));
  std::printf("divergence in nats: mean %.6f, median %.6f, 99th percentile %.6f, largest %.6f\n", d.mean, d.median,
              d.percentile_99, d.max);
  std::printf("same most probable token: %.2f %%\n", 100 * d.same_top);
}

}  // namespace

int perplexity(const PerplexityArguments& a) {
  const Result<std::string> path = model_path(a.model.model);
  if (!path.ok()) return fail(path.error());
  if (!a.save_logits.empty()) {
    if (const Status target = io::real_io().check_target(a.save_logits); !target.ok()) return fail(target.error());
  }
  const auto text = read_text(false, {}, a.file);
  if (!text.ok()) return fail(text.error());
  const auto engine = load_engine(*path, ops::perplexity_options(engine_options(a.model), a.window), a.quiet);
  if (!engine.ok()) return fail(engine.error());
  const auto tokenizer = engine::load_tokenizer((*engine)->file());
  if (!tokenizer.ok()) return fail(tokenizer.error());
  const auto tokens = tokenizer->encode(*text, text::SpecialTokens::plain);
  if (!tokens.ok()) return fail(tokens.error());
  const auto report = [&] {
    ProgressBar bar("reading", a.quiet);
    return ops::measure_perplexity(**engine, io::real_io(), *tokens, {a.window, a.stride, a.save_logits, a.kld},
                                   bar.progress());
  }();
  if (!report.ok()) return fail(report.error());
  if (a.json)
    print_json(*report, (*engine)->info());
  else
    print_text(*report);
  return 0;
}

}  // namespace evros::cli
