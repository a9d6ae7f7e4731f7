#include "cli/arguments.h"

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
  int operator()(const VerifyArguments& a) const { return verify(a); }
  int operator()(const SnapshotArguments& a) const { return snapshot(a); }
};

}  // namespace

int main(int argc, char** argv) { return std::visit(Dispatch{}, parse(argc, argv)); }
