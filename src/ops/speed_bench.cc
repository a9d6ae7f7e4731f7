#include "ops/speed_bench.h"

#include <algorithm>
#include <cmath>

#include "base/str.h"
#include "format/model_file.h"

namespace evros::ops {
namespace {

constexpr double kFillShare = 0.6;  // of the budget, for making the histories

/// Tokens of each text that is decoded together, in the end.
int64_t together_tokens(const SpeedOptions& options) { return options.prompt + options.decode * options.rounds; }

class SpeedRun {
 public:
  SpeedRun(engine::Engine& engine, io::Io& io, const SpeedOptions& options, const MachineLimits* limits,
           const Progress& progress)
      : engine_(engine), io_(io), options_(options), limits_(limits), progress_(progress), start_(io.now_ns()) {}

  Status run(SpeedReport& report) {
    const auto& contexts = options_.contexts;
    text_ = bench_text(engine_.model().hyper, 0, contexts.empty() ? 0 : contexts.back() + options_.decode);
    EVROS_ASSIGN(report.before, read());
    report.int8_rate = limits_ == nullptr ? 0 : limits_->int8_rate();
    report.operations = token_operations(engine_);
    EVROS_TRY(fill(report));
    if (options_.sequences > 1) EVROS_TRY(open_texts(report));
    EVROS_TRY(warm_up(report));
    for (double longest = 0; report.rounds < options_.rounds; ++report.rounds) {
      if (report.rounds > 0 && seconds() + longest > options_.budget_seconds) {
        report.left_out.push_back(cat("rounds beyond the first ", report.rounds, ": the budget of ",
                                      options_.budget_seconds, " seconds is used up"));
        break;
      }
      const double began = seconds();
      EVROS_TRY(round(report));
      longest = std::max(longest, seconds() - began);
      evros::report(progress_, static_cast<uint64_t>(report.rounds) + 1, static_cast<uint64_t>(options_.rounds));
    }
    if (report.rounds == 1 && seconds() > options_.budget_seconds) {
      report.left_out.push_back(
          cat("nothing of the shortest context, which is measured once whatever the budget is: it took ",
              std::ceil(seconds() * 10) / 10, " seconds, and the budget is ", options_.budget_seconds));
    }
    EVROS_ASSIGN(report.after, read());
    return {};
  }

  Status close() {
    for (const engine::SessionId session : before_) EVROS_TRY(engine_.close(session));
    for (const engine::SessionId session : sessions_) EVROS_TRY(engine_.close(session));
    return {};
  }

 private:
  double seconds() const { return static_cast<double>(io_.now_ns() - start_) * 1e-9; }
  Result<SpeedReport::Reading> read() const {
    EVROS_ASSIGN(const double all, read_all());
    return SpeedReport::Reading{limits_ == nullptr ? all : limits_->read(1), all};
  }
  /// Of memory that the device alone sees, what a copy moves.
  Result<double> read_all() const {
    if (limits_ == nullptr) return copy_rate(engine_.device(), io_, options_.copy_bytes);
    return limits_->read(limits_->threads());
  }

  /// Appends tokens [from, to) of `ids` in chunks of at most `step`; returns the seconds.
  Result<double> feed(engine::SessionId session, std::span<const int32_t> ids, int64_t from, int64_t to, int64_t step) {
    const double began = seconds();
    for (int64_t at = from; at < to; at += step) {
      const engine::ChunkRow row{session,
                                 ids.subspan(static_cast<size_t>(at), static_cast<size_t>(std::min(step, to - at)))};
      EVROS_ASSIGN(const auto statuses, engine_.run_chunk({&row, 1}));
      EVROS_TRY(statuses[0]);
    }
    return seconds() - began;
  }
  int64_t chunk() const { return engine_.info().plan.pass.rows; }

  /// Makes the sequence that comes before each point's prompt, as long as there is time.
  Status fill(SpeedReport& report) {
    EVROS_ASSIGN(const engine::SessionId all, engine_.open());
    int64_t at = 0;
    for (const int64_t context : options_.contexts) {
      SpeedPoint point;
      point.context = context, point.prompt = std::min(options_.prompt, context);
      for (const int64_t end = context - point.prompt; at < end;) {
        if (!report.points.empty() && seconds() > kFillShare * options_.budget_seconds) {  // the shortest always is
          report.left_out.push_back(
              cat("contexts of ", context, " tokens and more: making their history takes more than ",
                  kFillShare * options_.budget_seconds, " seconds, the share of the budget for it"));
          return engine_.close(all);
        }
        const int64_t to = std::min(at + chunk(), end);
        EVROS_TRY(feed(all, text_, at, to, chunk()));
        at = to;
      }
      EVROS_ASSIGN(const engine::SessionId before, engine_.fork(all));
      before_.push_back(before);
      report.points.push_back(std::move(point));
    }
    return engine_.close(all);
  }

  Status open_texts(SpeedReport& report) {
    report.together.emplace();
    report.together->sequences = options_.sequences;
    const int64_t n = together_tokens(options_);
    for (int32_t i = 0; i < options_.sequences; ++i) {
      texts_.push_back(bench_text(engine_.model().hyper, static_cast<uint32_t>(i) + 1, n));
      EVROS_ASSIGN(const engine::SessionId session, engine_.open());
      sessions_.push_back(session);
      EVROS_TRY(feed(session, texts_.back(), 0, options_.prompt, chunk()));
    }
    together_at_ = options_.prompt;
    return {};
  }

  /// Weights come into memory, threads awake; nothing is timed.
  Status warm_up(const SpeedReport& report) {
    if (report.points.empty()) return {};
    SpeedPoint point = report.points.front();
    return measure(point, before_.front(), 1);
  }

  Status round(SpeedReport& report) {
    EVROS_ASSIGN(reading_, read_all());
    report.reading.push_back(reading_);
    int8_ = report.int8_rate;
    operations_ = report.operations;
    for (size_t i = 0; i < report.points.size(); ++i) EVROS_TRY(measure(report.points[i], before_[i], reading_));
    return report.together ? decode_together(*report.together) : Status{};
  }

  Status measure(SpeedPoint& point, engine::SessionId before, double reading) {
    EVROS_ASSIGN(const engine::SessionId session, engine_.fork(before));
    EVROS_ASSIGN(const double prefill, feed(session, text_, point.context - point.prompt, point.context, chunk()));
    EVROS_ASSIGN(const double decode, feed(session, text_, point.context, point.context + options_.decode, 1));
    EVROS_TRY(engine_.close(session));
    point.prefill.push_back(static_cast<double>(point.prompt) / prefill);
    point.decode.push_back(static_cast<double>(options_.decode) / decode);
    point.bytes = count_bytes(engine_, point.context + options_.decode / 2);
    const auto bytes = static_cast<double>(point.bytes.weights + point.bytes.state);
    point.memory_share.push_back(bytes * point.decode.back() / reading);
    point.integer_share.push_back(int8_ > 0 ? operations_ * point.prefill.back() / int8_ : 0);
    return {};
  }

  Status decode_together(Together& together) {
    EVROS_ASSIGN(const engine::SessionId alone, engine_.fork(sessions_[0]));
    EVROS_ASSIGN(const double single, feed(alone, texts_[0], together_at_, together_at_ + options_.decode, 1));
    EVROS_TRY(engine_.close(alone));
    const double began = seconds();
    for (int64_t i = 0; i < options_.decode; ++i) EVROS_TRY(step_together(together_at_ + i));
    const double all = seconds() - began;
    together_at_ += options_.decode;
    together.single.push_back(static_cast<double>(options_.decode) / single);
    together.all.push_back(static_cast<double>(options_.decode) * together.sequences / all);
    together.context = together_at_;
    count_union(together);
    return {};
  }

  Status step_together(int64_t at) {
    std::vector<engine::ChunkRow> rows;
    for (size_t i = 0; i < sessions_.size(); ++i)
      rows.push_back({sessions_[i], std::span<const int32_t>(texts_[i]).subspan(static_cast<size_t>(at), 1)});
    const engine::Observer observer = [this](const model::Pass& pass, const model::Stage* next) {
      const bool chosen = next != nullptr && std::string_view(next->name) == "experts";
      return chosen ? count_chosen(pass, next->layer) : Status{};
    };
    EVROS_ASSIGN(const auto statuses,
                 engine_.run_chunk(rows, {.all_logits = false, .cancel = nullptr, .observer = &observer}));
    for (const Status& status : statuses) EVROS_TRY(status);
    ++steps_;
    return {};
  }

  /// The router of the layer has just run.
  Status count_chosen(const model::Pass& pass, int32_t layer) {
    const auto& h = pass.model->hyper;
    std::vector<bool> chosen(static_cast<size_t>(h.experts));
    std::vector<int32_t> ids(static_cast<size_t>(pass.batch.rows) * static_cast<size_t>(h.experts_used));
    EVROS_TRY(engine_.device().download(std::as_writable_bytes(std::span(ids)),
                                        reinterpret_cast<const std::byte*>(pass.scratch->expert_ids)));
    for (const int32_t id : ids) chosen[static_cast<size_t>(id)] = true;
    const auto count = static_cast<double>(std::count(chosen.begin(), chosen.end(), true));
    chosen_ += count;
    chosen_bytes_ += count * static_cast<double>(expert_bytes_[static_cast<size_t>(layer)]);
    return {};
  }

  void count_union(Together& together) const {
    const auto steps = static_cast<double>(steps_);
    const TokenBytes one = count_bytes(engine_, together_at_);
    const auto own = static_cast<double>(one.rows + one.state),
               shared = static_cast<double>(one.weights - one.experts - one.rows);
    together.experts = chosen_ / steps / engine_.model().hyper.layers;
    together.bytes_single = static_cast<double>(one.weights + one.state);
    together.bytes_union = shared + chosen_bytes_ / steps + own * together.sequences;
  }

  engine::Engine& engine_;
  io::Io& io_;
  const SpeedOptions& options_;
  const MachineLimits* limits_;  // null: the device has memory of its own
  const Progress& progress_;
  uint64_t start_;
  std::vector<int32_t> text_;
  std::vector<engine::SessionId> before_;  // of each point: its context without the prompt
  std::vector<std::vector<int32_t>> texts_;
  std::vector<engine::SessionId> sessions_;  // of each text
  int64_t together_at_ = 0;
  std::vector<uint64_t> expert_bytes_ = expert_bytes(engine_);
  double reading_ = 0, int8_ = 0, operations_ = 0;
  double chosen_ = 0, chosen_bytes_ = 0;  // sums over layers and steps
  int64_t steps_ = 0;
};

}  // namespace

double median(Rounds rounds) {
  if (rounds.empty()) return 0;
  std::sort(rounds.begin(), rounds.end());
  const size_t half = rounds.size() / 2;
  return rounds.size() % 2 == 1 ? rounds[half] : (rounds[half - 1] + rounds[half]) / 2;
}

std::vector<int64_t> choose_contexts(std::vector<int64_t> wanted, int64_t most, int64_t decode,
                                     std::vector<std::string>& left_out) {
  const int64_t longest = std::max<int64_t>(most - decode, 1);
  if (wanted.empty()) {
    for (int64_t context = 512; context < longest; context *= 4) wanted.push_back(context);
    wanted.push_back(longest);
  }
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  std::vector<int64_t> chosen;
  for (const int64_t context : wanted) {
    if (context <= longest) {
      chosen.push_back(context);
      continue;
    }
    left_out.push_back(cat("a context of ", context, " tokens: with ", decode,
                           " decoded after it, it does not fit the ", most, " that there are"));
  }
  if (chosen.empty()) {
    left_out.back() += cat("; ", longest, " are measured instead");
    chosen.push_back(longest);
  }
  return chosen;
}

engine::EngineOptions speed_options(engine::EngineOptions options, const SpeedOptions& speed) {
  const auto points = static_cast<int32_t>(speed.contexts.size());
  const int64_t longest = speed.contexts.empty() ? 1 : speed.contexts.back() + speed.decode;
  const int64_t text = speed.sequences > 1 ? together_tokens(speed) : 0;
  options.context = std::max(longest, text);
  options.sessions = points + 2 + (speed.sequences > 1 ? speed.sequences : 0);
  options.batch = std::max(options.batch, speed.sequences);
  options.chunk = std::max(options.chunk, options.batch);
  // What all share, what a fork adds to it, and the texts.
  options.caller_bytes = speed.buffer_bytes;
  options.pool_tokens = options.context + speed.prompt + speed.decode + text * speed.sequences;
  return options;
}

Result<std::vector<std::string>> fit_contexts(io::Io& io, const std::string& path, const engine::EngineOptions& options,
                                              SpeedOptions& speed) {
  EVROS_ASSIGN(const std::unique_ptr<format::ModelFile> file, format::open_model(io, path));
  const int64_t model = file->hyper().context_length, asked = options.context;
  if (asked > model) {
    return Error{Code::invalid_argument,
                 cat("a context of ", asked, " tokens was asked for; ", path, " was made for at most ", model)};
  }
  const int64_t most = asked > 0 ? asked : speed.contexts.empty() ? std::min(model, engine::kDefaultContext) : model;
  if (speed.decode >= most || speed.prompt > most - speed.decode) {
    return Error{Code::invalid_argument, cat("a prompt of ", speed.prompt, " tokens and ", speed.decode,
                                             " decoded ones do not fit a context of ", most)};
  }
  std::vector<std::string> left_out;
  speed.contexts = choose_contexts(std::move(speed.contexts), most, speed.decode, left_out);
  EVROS_ASSIGN(const engine::Plan first, engine::make_plan(*file, options));
  speed.buffer_bytes = MachineLimits::buffer_within(io, first.usable_bytes);
  for (;; speed.contexts.pop_back()) {
    EVROS_ASSIGN(const engine::Plan plan, engine::make_plan(*file, speed_options(options, speed)));
    const bool of_host = options.device == "cpu";  // a GPU's memory says for itself what it has no room for
    if (!of_host || plan.fits() || speed.contexts.size() == 1) return left_out;
    left_out.push_back(cat("a context of ", speed.contexts.back(), " tokens: it takes ",
                           human_bytes(plan.total_bytes()), " of memory with the model, and ",
                           human_bytes(plan.usable_bytes), " may be used"));
  }
}

std::string SpeedReport::why_not() const {
  if (own_memory) return {};
  if (threads < 2) return "it ran on one thread, so nothing says whether the machine was quiet";
  for (const auto& [seen, when] : {std::pair(before, "before"), std::pair(after, "after")}) {
    if (seen.all >= kQuietRatio * seen.one) continue;
    const double ratio = std::round(100 * seen.all / seen.one) / 100;
    return cat("reading with ", threads, " threads was ", ratio, " x as fast as with one ", when,
               " the run, and a quiet machine gives at least ", kQuietRatio, " x");
  }
  return {};
}

Result<SpeedReport> bench_speed(engine::Engine& engine, io::Io& io, const SpeedOptions& options,
                                const Progress& progress) {
  SpeedReport report;
  report.threads = engine.info().threads;
  report.own_memory = !engine.device().host_addressable();
  std::optional<MachineLimits> limits;
  if (!report.own_memory) {
    EVROS_ASSIGN(limits, MachineLimits::create(io, engine.info().threads, options.buffer_bytes));
    report.buffer_bytes = limits->buffer_bytes(), report.cache_bytes = limits->cache_bytes();
    report.beyond_cache = limits->beyond_cache();
  }
  SpeedRun run(engine, io, options, limits ? &*limits : nullptr, progress);
  const Status status = run.run(report);
  const Status closed = run.close();
  EVROS_TRY(status);
  EVROS_TRY(closed);
  return report;
}

}  // namespace evros::ops
