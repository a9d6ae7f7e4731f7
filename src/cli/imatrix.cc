// evros imatrix: which columns of the weights matter on a text.
#include "ops/imatrix.h"

#include <cstdio>

#include "base/str.h"
#include "cli/arguments.h"
#include "cli/common.h"
#include "cli/progress_bar.h"
#include "engine/devices.h"
#include "engine/text_kit.h"
#include "io/io.h"
#include "ops/perplexity.h"

namespace evros::cli {
namespace {

/// Before the long work: may the file be written, and where would the sums be taken?
Status check_request(const ImatrixArguments& a) {
  if (a.model.device == "cuda")
    return Error{Code::unsupported, "an importance matrix is made on the CPU alone; leave --device cuda out"};
  if (!a.out.ends_with(".gguf"))
    return Error{Code::invalid_argument, cat("the file to write is ", a.out, "; its name must end in .gguf")};
  return io::real_io().check_target(a.out);
}

Result<format::ImportanceMatrix> measure(const ImatrixArguments& a) {
  EVROS_TRY(check_request(a));
  EVROS_ASSIGN(const std::string path, model_path(a.model.model));
  EVROS_ASSIGN(const std::string text, read_text(false, {}, a.file));
  engine::EngineOptions options = ops::perplexity_options(engine_options(a.model), a.window);
  options.device = "cpu";
  EVROS_ASSIGN(auto host, engine::open_device(options));
  EVROS_ASSIGN(const kernels::Kernels* const table, engine::choose_kernels(*host, options.kernels));
  auto device = std::make_unique<ops::ImatrixDevice>(std::move(host), *table);
  ops::ImatrixDevice& watched = *device;
  EVROS_ASSIGN(const auto engine, load_engine(path, options, a.quiet, std::move(device)));
  EVROS_ASSIGN(const auto tokenizer, engine::load_tokenizer(engine->file()));
  EVROS_ASSIGN(const auto tokens, tokenizer.encode(text, text::SpecialTokens::plain));
  ProgressBar bar("reading", a.quiet);
  return ops::measure_importance(*engine, watched, tokens, a.window, a.file == "-" ? "" : a.file, bar.progress());
}

}  // namespace

int imatrix(const ImatrixArguments& a) {
  const auto matrix = measure(a);
  if (!matrix.ok()) return fail(matrix.error());
  const Status written = format::write_importance(io::real_io(), a.out, *matrix);
  if (!written.ok()) return fail(written.error());
  if (!a.quiet) {
    std::printf("%s: %zu matrices, %s of %lld tokens\n", a.out.c_str(), matrix->entries.size(),
                counted(matrix->chunk_count, "window").c_str(), static_cast<long long>(a.window));
  }
  return 0;
}

}  // namespace evros::cli
