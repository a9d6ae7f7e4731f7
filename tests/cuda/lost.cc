// evros_cuda_lost MODEL: what goes wrong on a GPU, provoked there. A refused allocation and a refused launch are failed
// chunks; a kernel that writes out of bounds takes the context with it, and the engine goes on. Run by tools/gpu_check.sh in a
// process of its own. Prints a line for each check and exits with 0 when all passed.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/str.h"
#include "device/cuda_device.h"
#include "device/forwarding_device.h"
#include "engine/engine.h"
#include "io/io.h"

extern "C" const EvrosCudaBackend* evros_cuda_backend();
extern "C" const evros::kernels::Kernels* evros_cuda_kernels();
void evros_write_out_of_bounds(void* stream);
void evros_launch_too_wide(void* stream);

namespace evros {
namespace {

/// Adds a bad kernel to a launch that was chosen.
class Provoked final : public device::ForwardingDevice {
 public:
  enum class Fault { none, refused_launch, out_of_bounds };
  struct Plan {
    Fault fault = Fault::none;
    int64_t at = 0;  // launches until then
  };
  Provoked(std::unique_ptr<device::Device> inner, Plan& plan) : ForwardingDevice(std::move(inner)), plan_(plan) {}
  Status launch(const device::StageInfo& stage, const std::function<void(device::Queue&)>& body) override {
    return inner().launch(stage, [&](device::Queue& queue) {
      body(queue);
      if (plan_.fault == Fault::none || plan_.at-- > 0) return;
      (plan_.fault == Fault::refused_launch ? evros_launch_too_wide : evros_write_out_of_bounds)(queue.stream);
      plan_.fault = Fault::none;
    });
  }

 private:
  Plan& plan_;
};

int failures = 0;

void check(bool good, const std::string& what) {
  std::printf("lost: %s %s\n", good ? "passed" : "FAILED", what.c_str());
  failures += good ? 0 : 1;
}

std::vector<int32_t> text(int32_t n, int32_t seed) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < n; ++i) ids.push_back((i * 37 + seed * 11 + 5) % 500);
  return ids;
}

std::string look(engine::Engine& engine, const std::vector<engine::SessionId>& sessions) {
  std::string all;
  for (const engine::SessionId session : sessions) {
    const auto seen = engine.digests(session);
    all += seen.ok() ? seen->combined + " " : seen.error().message;
  }
  return all;
}

Status fill(engine::Engine& engine, std::vector<engine::SessionId>& sessions) {
  for (int32_t s = 0; s < 2; ++s) {
    EVROS_ASSIGN(const engine::SessionId session, engine.open());
    sessions.push_back(session);
    EVROS_TRY(engine.append(session, text(90 + s, s)));
  }
  EVROS_ASSIGN(const engine::SessionId fork, engine.fork(sessions[0]));
  sessions.push_back(fork);
  return engine.append(fork, text(3, 7));
}

Status run(const std::string& path) {
  Provoked::Plan plan;
  const auto open = [&]() -> Result<std::unique_ptr<device::Device>> {
    EVROS_ASSIGN(auto cuda, device::make_cuda_device(*evros_cuda_backend(), evros_cuda_kernels()));
    return {std::make_unique<Provoked>(std::move(cuda), plan)};
  };
  engine::EngineOptions options;
  options.context = 512;
  options.sessions = 4;
  options.chunk = 16;
  EVROS_ASSIGN(const auto cpu, engine::Engine::load(io::real_io(), path, options));
  std::string notice;
  options.reopen = open;
  options.notice = [&](const std::string& sentence) { notice = sentence; };
  EVROS_ASSIGN(auto device, open());
  EVROS_ASSIGN(const auto gpu, engine::Engine::load(io::real_io(), std::move(device), path, options));
  std::vector<engine::SessionId> on_cpu, on_gpu;
  EVROS_TRY(fill(*cpu, on_cpu));
  EVROS_TRY(fill(*gpu, on_gpu));
  check(look(*gpu, on_gpu) == look(*cpu, on_cpu), "three sessions have the CPU's digests");

  const auto refused = gpu->device().allocate(uint64_t{1} << 50, "a test");
  check(!refused.ok() && refused.error().code == Code::out_of_memory &&
            refused.error().message.find("cudaErrorMemoryAllocation") != std::string::npos,
        cat("an allocation is refused: ", refused.ok() ? "no" : refused.error().message));

  // Refused once, a launch is tried again with its chunk and nobody notices; the sentence is what the device itself says.
  const Status wide =
      gpu->device().launch({"test", -1, 0, {}, {}}, [](device::Queue& queue) { evros_launch_too_wide(queue.stream); });
  check(!wide.ok() && wide.error().code == Code::device && !gpu->device().lost() &&
            wide.error().message.find("cudaError") != std::string::npos,
        cat("a launch is refused: ", wide.ok() ? "no" : wide.error().message));
  plan = {Provoked::Fault::refused_launch, 7};
  EVROS_TRY(cpu->append(on_cpu[0], text(5, 3)));
  const Status again = gpu->append(on_gpu[0], text(5, 3));
  check(again.ok() && look(*gpu, on_gpu) == look(*cpu, on_cpu), "a chunk with a refused launch is run again");

  plan = {Provoked::Fault::out_of_bounds, 11};
  EVROS_TRY(cpu->append(on_cpu[1], text(40, 4)));
  const Status after = gpu->append(on_gpu[1], text(40, 4));
  check(after.ok(), cat("a kernel wrote out of bounds: ", after.ok() ? notice : after.error().message));
  check(notice.find("cuda:0 is lost") != std::string::npos && notice.find("cudaError") != std::string::npos,
        "the loss is said with CUDA's name for it");
  check(look(*gpu, on_gpu) == look(*cpu, on_cpu),
        cat("after it, every session has the CPU's digests, on ", gpu->info().device));
  EVROS_TRY(cpu->rewind(on_cpu[0], 50));
  EVROS_TRY(gpu->rewind(on_gpu[0], 50));
  EVROS_TRY(cpu->append(on_cpu[2], text(20, 9)));
  EVROS_TRY(gpu->append(on_gpu[2], text(20, 9)));
  check(look(*gpu, on_gpu) == look(*cpu, on_cpu), "and goes on with the same bits");
  return {};
}

}  // namespace
}  // namespace evros

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: evros_cuda_lost MODEL\n");
    return 2;
  }
  const evros::Status status = evros::run(argv[1]);
  if (!status.ok()) evros::check(false, status.error().message);
  return evros::failures == 0 ? 0 : 1;
}
