// The plan against the file, against what is then taken, and against itself under other budgets.
#include "engine/plan.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "base/str.h"
#include "engine/engine.h"
#include "io/io.h"
#include "io/memory_io.h"

namespace evros::engine {
namespace {

constexpr uint64_t kMiB = 1u << 20;
const std::string kTiny = std::string(EVROS_SOURCE_DIR) + "/models/evros-tiny";

const format::ModelFile& tiny() {
  static const auto file = format::open_model(io::real_io(), kTiny);
  return **file;
}

/// For a process that holds 40 MiB, whatever this one does.
Plan plan_of(const EngineOptions& options, std::optional<uint64_t> device_free = std::nullopt) {
  io::MemoryIo kernel;
  kernel.put("/proc/self/status",
             "VmSize:\t 204800 kB\nVmRSS:\t 40960 kB\nRssFile:\t 10240 kB\nVmData:\t 30720 kB\nThreads:\t1\n");
  auto plan = make_plan(tiny(), options, kernel, device_free);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan.ok() ? *plan : Plan{};
}

/// For this process as it is.
uint64_t needed_here(const EngineOptions& options) {
  const auto plan = make_plan(tiny(), options);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan.ok() ? plan->total_bytes() : 0;
}

EngineOptions budget(uint64_t bytes, int64_t context = 0) {
  EngineOptions options;
  options.memory_bytes = bytes;
  options.context = context;
  options.threads = 2;
  return options;
}

std::string refusal(const EngineOptions& options) {
  const auto engine = Engine::load(io::real_io(), kTiny, options);
  EXPECT_FALSE(engine.ok());
  if (engine.ok()) return {};
  EXPECT_EQ(engine.error().code, Code::out_of_memory) << engine.error().message;
  return engine.error().message;
}

TEST(Plan, EveryByteOfTheFileIsInOneGroup) {
  const Plan plan = plan_of({});
  uint64_t stored = 0, wanted = 0, memory = 0;
  std::map<std::string, PlanGroup> groups;
  for (const PlanGroup& group : plan.groups) {
    stored += group.stored_bytes, memory += group.memory_bytes;
    EXPECT_TRUE(groups.emplace(group.name, group).second);
  }
  for (const format::Tensor& tensor : tiny().tensors()) wanted += tensor.bytes();
  EXPECT_EQ(stored, wanted);
  EXPECT_EQ(memory, plan.weight_bytes + plan.table_memory_bytes);
  for (const char* name : {"embedding", "attention", "linear layers", "experts", "shared experts", "hyper-connections",
                           "n-gram layers", "n-gram table", "head", "draft head"}) {
    EXPECT_TRUE(groups.contains(name)) << name;
  }
  EXPECT_FALSE(groups.contains("others"));
  // 8 layers of 8 experts, gate, up and down of 64 x 256 bfloat16, and float routers.
  EXPECT_EQ(groups["experts"].stored_bytes, uint64_t{8} * (8 * 3 * 64 * 256 * 2 + 8 * 256 * 2));
  EXPECT_EQ(groups["embedding"].stored_bytes, uint64_t{4096} * 256 * 2);
}

TEST(Plan, EveryGroupIsWhereTheOptionsPutIt) {
  const auto place = [](const EngineOptions& options, std::string_view name) {
    for (const PlanGroup& group : plan_of(options).groups)
      if (group.name == name) return group.place;
    ADD_FAILURE() << name;
    return Place::disk;
  };
  EngineOptions options;
  EXPECT_EQ(place(options, "n-gram table"), Place::frames);
  EXPECT_EQ(place(options, "draft head"), Place::disk);
  EXPECT_EQ(place(options, "experts"), Place::memory);
  options.table.resident = options.draft_head = true;
  EXPECT_EQ(place(options, "n-gram table"), Place::memory);
  EXPECT_EQ(place(options, "draft head"), Place::memory);
}

TEST(Plan, JustAboveThePlanAModelLoadsAndJustBelowItIsRefusedWithTheNumbers) {
  const uint64_t needed = needed_here(budget(0, 1024));
  const auto engine = Engine::load(io::real_io(), kTiny, budget(needed + 6 * kMiB, 1024));
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  EXPECT_EQ((*engine)->info().plan.context, 1024);
  // The engine that is there counts too: its memory is this process's.
  const uint64_t second = needed_here(budget(0, 1024));
  EXPECT_GT(second, needed + 4 * kMiB);
  const std::string message = refusal(budget(second - 2 * kMiB, 1024));
  for (const char* part : {"MiB of memory are needed and ", "may be used (as asked)", "experts 6.0 MiB", "scratch ",
                           "context of 1024 tokens ", "; it fits with "}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  }
}

TEST(Plan, ARefusalNamesWhatWouldFit) {
  EngineOptions options = budget(0, 4096);
  options.sessions = 4;
  options.batch = 4;
  options.memory_bytes = plan_of(options).total_bytes() - 4 * kMiB;
  const Plan plan = plan_of(options);
  ASSERT_FALSE(plan.fits());
  EXPECT_NE(plan.advice.find("3 sessions"), std::string::npos) << plan.advice;
  options.context = plan.largest_context;
  EXPECT_NE(plan.advice.find(cat("at most ", options.context, " tokens (--ctx)")), std::string::npos) << plan.advice;
  EXPECT_TRUE(plan_of(options).fits());
  options.context = 4096;
  options.sessions = 3;
  EXPECT_TRUE(plan_of(options).fits());
}

// Down to the least there is, every refusal names something to ask for, and who asks for it is not refused. (It once said that
// less memory than there was would be needed even at the least.)
TEST(Plan, WhateverARefusalNamesFitsAndItOnlyGivesUpWhenTheLeastDoesNotFit) {
  EngineOptions least;
  least.threads = 2, least.chunk = 1, least.context = 64;
  least.table.memory_bytes = kMiB;
  const uint64_t floor = plan_of(least).total_bytes();
  EngineOptions server;
  server.threads = 2, server.sessions = 12, server.batch = 4, server.pool_contexts = 4;
  EngineOptions sized = server;
  sized.context = 2048;
  EngineOptions frugal = budget(0, 2048);
  frugal.chunk = 16;
  int chunks = 0, frames = 0, sessions = 0, together = 0;
  for (EngineOptions options : {budget(0), budget(0, 2048), frugal, server, sized}) {
    options.memory_bytes = uint64_t{1} << 40;
    for (uint64_t bytes = plan_of(options).total_bytes(); bytes + 2 * kMiB > floor; bytes -= kMiB) {
      options.memory_bytes = bytes;
      const Plan plan = plan_of(options);
      if (plan.fits()) continue;
      const std::string& advice = plan.advice;
      const bool some = advice.find("fits with ") != std::string::npos;
      EXPECT_EQ(some, bytes >= floor) << bytes << " of " << floor << ": " << advice;
      const auto number_before = [&](const char* words) {
        const size_t at = advice.find(words);
        return at == std::string::npos ? 0 : std::stoi(advice.substr(advice.rfind(' ', at - 1)));
      };
      const auto expect_fits = [&](const EngineOptions& other) { EXPECT_TRUE(plan_of(other).fits()) << advice; };
      EngineOptions other = options;
      if (advice.find("nothing is enough alone") != std::string::npos) {
        other.sessions = other.batch = other.chunk = 1, other.pool_contexts = 0;
        other.table.memory_bytes = std::stoull(advice.substr(advice.find("on disk in ") + 11)) << 20;
        other.context = number_before(" tokens (--ctx)"), ++together;
        expect_fits(other);
        continue;
      }
      if (const int chunk = number_before(" token (--chunk)") + number_before(" tokens (--chunk)"); chunk > 0) {
        other.chunk = chunk, ++chunks;
        expect_fits(other);
      }
      other = options;
      if (const size_t at = advice.find("(--ple-memory-mb "); at != std::string::npos) {
        other.table.memory_bytes = std::stoull(advice.substr(at + 17)) << 20, ++frames;
        expect_fits(other);
      }
      other = options;
      if (const int n = number_before(" session (of a") + number_before(" sessions (of a"); n > 0) {
        other.sessions = n, other.batch = std::min(n, 4), other.pool_contexts = std::min(n, 4), ++sessions;
        expect_fits(other);
      }
    }
  }
  EXPECT_TRUE(chunks > 0 && frames > 0 && sessions > 0 && together > 0)
      << chunks << ' ' << frames << ' ' << sessions << ' ' << together;
}

// Of a server with a small model they are most of it.
TEST(Plan, ARefusalSaysWhenRequestsTakeWhatTheModelLacks) {
  EngineOptions options = budget(0, 512);
  options.caller_bytes = 50 * kMiB;
  options.memory_bytes = plan_of(options).total_bytes();
  options.caller_bytes = 100 * kMiB;
  const Plan plan = plan_of(options);
  ASSERT_FALSE(plan.fits());
  EXPECT_NE(plan.advice.find("at most 50.0 MiB for requests instead of 100.0 MiB"), std::string::npos) << plan.advice;
}

TEST(Plan, ATableInMemoryThatDoesNotFitIsSentToDisk) {
  EngineOptions options = budget(0, 512);
  options.table.memory_bytes = kMiB;
  options.chunk = 16;
  options.table.resident = true;
  options.memory_bytes = plan_of(options).total_bytes() - kMiB;
  const Plan plan = plan_of(options);
  ASSERT_FALSE(plan.fits());
  EXPECT_NE(plan.advice.find("--ple disk"), std::string::npos) << plan.advice;
}

TEST(Plan, TheTablesMemoryOfAChunkIsTheLeastThatIsTaken) {
  for (const int32_t chunk : {1, 7, 100, 4000}) {
    EngineOptions options;
    options.chunk = chunk;
    options.table.memory_bytes = table_memory_of_chunk(tiny(), options);
    EXPECT_TRUE(make_plan(tiny(), options).ok()) << chunk;
    --options.table.memory_bytes;
    const auto less = make_plan(tiny(), options);
    ASSERT_FALSE(less.ok()) << chunk;
    EXPECT_NE(less.error().message.find("frames of the n-gram table"), std::string::npos) << less.error().message;
  }
  EngineOptions resident;
  resident.table.resident = true;
  EXPECT_EQ(table_memory_of_chunk(tiny(), resident), 0u);
}

TEST(Plan, WhenNothingHelpsTheLeastThatIsNeededIsSaid) {
  const Plan plan = plan_of(budget(8 * kMiB));
  EXPECT_FALSE(plan.fits());
  EXPECT_EQ(plan.largest_context, 0);
  EXPECT_NE(plan.advice.find("even one session of 64 tokens"), std::string::npos) << plan.advice;
  EXPECT_EQ(plan.advice.find("fits with"), std::string::npos) << plan.advice;
}

TEST(Plan, AContextThatNobodyAskedForIsTheLongestThatFits) {
  const Plan whole = plan_of(budget(uint64_t{1} << 40));
  EXPECT_EQ(whole.context, 4096);
  EXPECT_EQ(whole.context_choice, ContextChoice::model);
  for (uint64_t less = 2; less < 16; less += 3) {
    const Plan plan = plan_of(budget(whole.total_bytes() - less * kMiB));
    ASSERT_TRUE(plan.fits()) << less;
    EXPECT_EQ(plan.context_choice, ContextChoice::memory);
    EXPECT_LT(plan.context, 4096);
    EXPECT_EQ(plan.context, plan.largest_context);
    EXPECT_EQ(plan.context_unless_memory, 4096);
    EXPECT_EQ(plan.bytes_unless_memory, whole.total_bytes());
    EngineOptions longer = budget(plan.usable_bytes, plan.context + 64);  // a page more
    EXPECT_FALSE(plan_of(longer).fits()) << less;
  }
  const auto engine = Engine::load(io::real_io(), kTiny, budget(needed_here(budget(0)) - 6 * kMiB));
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  EXPECT_LT((*engine)->info().plan.context, 4096);
  EXPECT_TRUE((*engine)->open().ok());
}

// A device with memory of its own holds weights, banks, pages and scratch, and nothing else.
TEST(Plan, ADeviceWithMemoryOfItsOwnIsCountedByItself) {
  const auto on_device = [](uint64_t free_bytes, int64_t context, uint64_t host_bytes) {
    return plan_of(budget(host_bytes, context), free_bytes);
  };
  constexpr uint64_t kPlenty = uint64_t{1} << 40;
  const Plan roomy = on_device(kPlenty, 4096, kPlenty), host = plan_of(budget(kPlenty, 4096));
  ASSERT_TRUE(roomy.fits());
  EXPECT_EQ(roomy.host_bytes() + roomy.device_bytes(), host.host_bytes());
  EXPECT_EQ(host.device_bytes(), 0u);
  EXPECT_GT(roomy.device_bytes(), roomy.weight_bytes);

  EXPECT_TRUE(on_device(roomy.device_bytes(), 4096, kPlenty).fits());
  const Plan tight = on_device(roomy.device_bytes() - 1, 4096, kPlenty);
  ASSERT_FALSE(tight.fits());
  const std::string refused = check_fits(tight).error().message;
  for (const char* part : {"of the GPU's memory are needed", "are free", "experts", "session state", "--ctx"}) {
    EXPECT_NE(refused.find(part), std::string::npos) << part << " in " << refused;
  }
  EXPECT_EQ(refused.find("n-gram table "), std::string::npos) << refused;

  const Plan shorter = on_device(roomy.device_bytes() - 2 * kMiB, 0, kPlenty);
  ASSERT_TRUE(shorter.fits());
  EXPECT_EQ(shorter.context_choice, ContextChoice::memory);
  EXPECT_LT(shorter.context, 4096);

  const Plan poor = on_device(kPlenty, 4096, kMiB);
  ASSERT_FALSE(poor.fits());
  const std::string of_host = check_fits(poor).error().message;
  EXPECT_NE(of_host.find("program and vocabulary"), std::string::npos) << of_host;
  EXPECT_EQ(of_host.find("experts"), std::string::npos) << of_host;
}

TEST(Plan, AContextThatWasAskedForIsNeverShortened) {
  const uint64_t needed = plan_of(budget(0, 4096)).total_bytes();
  const Plan plan = plan_of(budget(needed - 4 * kMiB, 4096));
  EXPECT_FALSE(plan.fits());
  EXPECT_EQ(plan.context, 4096);
  EXPECT_EQ(plan.context_choice, ContextChoice::asked);
}

TEST(Plan, MoreOfAnythingCostsWhatThePlanSays) {
  const Plan base = plan_of(budget(0, 1024));
  EngineOptions more = budget(0, 1024);
  more.sessions = 2;
  const Plan two = plan_of(more);
  EXPECT_EQ(two.banks_bytes() + two.pages_bytes() - base.banks_bytes() - base.pages_bytes(), base.bytes_per_session());
  const Plan longer = plan_of(budget(0, 2048));
  EXPECT_EQ((longer.pages_bytes() - base.pages_bytes()) / 2, base.bytes_per_1k_tokens());  // a session and the spare
  more.pool_contexts = 1;
  EXPECT_LT(plan_of(more).pages_bytes(), two.pages_bytes());
  EXPECT_GE(plan_of(more).pages_bytes(), base.page_bytes * 1024 / 64);
}

TEST(Plan, WhatTheCallerTakesCounts) {
  EngineOptions options = budget(0, 512);
  const uint64_t without = plan_of(options).total_bytes();
  options.caller_bytes = 100 * kMiB;
  EXPECT_EQ(plan_of(options).total_bytes() - without, 100 * kMiB);
}

TEST(Plan, IsToldBeforeTheEngineTakesMemoryAndLoadingTellsHowFarItIs) {
  EngineOptions options = budget(0, 256);
  uint64_t told = 0, last = 0, calls = 0, total = 0;
  options.on_plan = [&](const Plan& plan) { told = plan.weight_bytes; };
  options.progress = [&](uint64_t done, uint64_t of) {
    EXPECT_GT(told, 0u);
    EXPECT_GE(done, last);
    EXPECT_LE(done, of);
    last = done, total = of, ++calls;
  };
  ASSERT_TRUE(Engine::load(io::real_io(), kTiny, options).ok());
  EXPECT_EQ(total, told);
  EXPECT_EQ(last, total);
  EXPECT_GT(calls, 100u);
}

}  // namespace
}  // namespace evros::engine
