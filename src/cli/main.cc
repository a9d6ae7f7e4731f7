// The program: parses, runs one command, and makes sure that what it printed arrived.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "cli/arguments.h"
#include "cli/common.h"
#include "io/process.h"

namespace {

using namespace evros::cli;

struct Dispatch {
  int operator()(const Exit& exit) const { return exit.code; }
  int operator()(const RunArguments& a) const { return run(a); }
  int operator()(const InspectArguments& a) const { return inspect(a); }
  int operator()(const TokenizeArguments& a) const { return tokenize(a); }
  int operator()(const ConvertArguments& a) const { return convert(a); }
  int operator()(const SynthArguments& a) const { return synth(a); }
  int operator()(const TraceArguments& a) const { return trace(a); }
  int operator()(const BenchArguments& a) const { return bench(a); }
  int operator()(const PerplexityArguments& a) const { return perplexity(a); }
  int operator()(const ImatrixArguments& a) const { return imatrix(a); }
  int operator()(const VerifyArguments& a) const { return verify(a); }
  int operator()(const SnapshotArguments& a) const { return snapshot(a); }
  int operator()(const ServeArguments& a) const { return serve(a); }
};

// Nothing in here may need memory once there is none.
int run_command(int argc, char** argv) {
  try {
    return std::visit(Dispatch{}, parse(argc, argv));
  } catch (const std::bad_alloc&) {
    std::fputs("evros: out of memory\n", stderr);
  } catch (const std::exception& error) {  // of the standard library: a thread or lock that the system refused
    std::fprintf(stderr, "evros: the system refused a thread or a lock: %s\n", error.what());
  }
  return 1;
}

// Output that was lost is a failure, also of a reply that was interrupted for it; said unless something was said already.
int flush_output(int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  const int error = lost_output() != 0 ? lost_output() : errno;  // 0 when another write failed before
  if (code == 1 || code == 2) return code;
  std::fprintf(stderr, "evros: standard output cannot be written%s%s\n", error == 0 ? "" : ": ",
               error == 0 ? "" : std::strerror(error));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (const evros::Status ready = evros::io::prepare_process(); !ready.ok()) return fail(ready.error());
  return flush_output(run_command(argc, argv));
}
