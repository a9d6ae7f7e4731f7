#!/usr/bin/env python3
"""Tests of tidy.py: every rule fires on a bad sample, and a good tree is left alone."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tidy  # noqa: E402

GOOD = {
    "src/base/a.h": "// What it is.\n#pragma once\n#include <vector>\nnamespace evros { inline int f() { return 1; } }\n",
    "src/io/posix.cc": '#include <fcntl.h>\n#include "base/a.h"\n',
    "src/state/publish.cc": 'void publish() {\n  current_.store(next, std::memory_order_release);  // .store( here is a comment\n}\n',
    "src/state/state_test.cc": "#include <thread>\n#include <fstream>\nvoid f() { std::thread t; std::ifstream in; }\n",
    "src/kernels/math.h": "#pragma once\ninline float exp(float x) { return x; }\nconst char* s = \"std::exp(x) co_await\";\n",
    "src/model/stage.cc": '#include "kernels/kernels.h"\n#include "state/store.h"\n',
    "README.md": "[the rules](CONTRIBUTING.md) [web](https://example.org)\n```\n[code](nowhere.md)\n```\n",
    "CONTRIBUTING.md": "rules\n",
    "CMakeLists.txt": "evros_library(io DEPS base)\nadd_compile_options(-fno-fast-math)\n",
}


def lines(count, line="  x();\n"):
    return line * count


class TidyTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        os.makedirs(os.path.join(self.root, "tools"))
        shutil.copy(os.path.join(HERE, "layers.txt"), os.path.join(self.root, "tools"))
        for path, text in GOOD.items():
            self.write(path, text)

    def tearDown(self):
        shutil.rmtree(self.root)

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def findings(self):
        return tidy.Tidy(self.root).run()

    def expect(self, path, text, *wanted):
        """Exactly one finding, in `path`, that holds every wanted word."""
        self.write(path, text)
        found = self.findings()
        self.assertEqual(len(found), 1, found)
        for word in (path, *wanted):
            self.assertIn(word, found[0])

    def test_good_tree_has_no_findings(self):
        self.assertEqual(self.findings(), [])

    def test_upward_include(self):
        self.expect("src/base/b.cc", '#include "io/io.h"\n', "base may not include io")

    def test_include_in_a_test_obeys_the_table_too(self):
        self.expect("src/text/text_test.cc", '#include "engine/engine.h"\n', "text may not include engine")

    def test_folder_missing_from_the_table(self):
        self.expect("src/extra/b.cc", "int x;\n", "not in tools/layers.txt")

    def test_include_not_from_src(self):
        self.expect("src/base/b.cc", '#include "a.h"\n', "not a path from src/")

    def test_model_sees_the_kernel_table_only(self):
        self.expect("src/model/b.cc", '#include "kernels/codec/q4_0.h"\n', "only kernels.h")

    def test_sim_from_verify_only(self):
        self.write("src/ops/verify_faults.cc", '#include "sim/fault_plan.h"\n')
        self.assertEqual(self.findings(), [])
        self.expect("src/ops/convert.cc", '#include "sim/fault_plan.h"\n', "only ops/verify*")

    def test_sim_from_the_engine(self):
        self.expect("src/engine/b.cc", '#include "sim/fault_plan.h"\n', "engine may not include sim")

    def test_test_header_in_a_program(self):
        self.expect("src/text/b.cc", '#include "text/test_data.h"\n', "for tests only")

    def test_commented_include_does_not_count(self):
        self.write("src/base/b.cc", '// #include "io/io.h"\n/*\n#include "io/io.h"\n*/\n')
        self.assertEqual(self.findings(), [])

    def test_cmake_link_against_the_table(self):
        self.expect("CMakeLists.txt", "evros_library(io DEPS base engine LIBS Threads::Threads)\n", "io may not link engine")

    def test_only_rules(self):
        for path, text, what in [
                ("src/state/b.cc", "#include <unistd.h>\n", "system calls"),
                ("src/engine/b.cc", "#include <sys/mman.h>\n", "system calls"),
                ("src/format/b.cc", "void f() { std::ifstream in; }\n", "file streams"),
                ("src/format/b.cc", 'void f() { fopen("x", "r"); }\n', "file streams"),
                ("src/io/b.cc", "#include <sys/socket.h>\n", "sockets"),
                ("src/cli/b.cc", "#include <boost/asio.hpp>\n", "sockets"),
                ("src/engine/b.cc", "#include <cuda_runtime.h>\n", "CUDA"),
                ("src/state/b.cc", "void f() { cudaMalloc(p, 1); }\n", "CUDA"),
                ("src/engine/b.cc", "#include <boost/json.hpp>\n", "Boost.JSON"),
                ("src/ops/b.cc", "#include <CLI/CLI.hpp>\n", "CLI11"),
                ("src/ops/b.cc", "#include <histedit.h>\n", "line editor"),
                ("src/cli/b.cc", "#include <pcre2.h>\n", "PCRE2"),
                ("src/state/b.cc", "#include <xxhash.h>\n", "xxHash"),
                ("src/ops/b.cc", 'void f() { std::getenv("X"); }\n', "environment"),
                ("src/engine/b.cc", "std::thread t;\n", "threads"),
                ("src/engine/b_test.cc", "void f() { co_await x; }\n", "coroutines"),
                ("src/kernels/b.cc", "float f(float x) { return std::exp(x); }\n", "libm"),
                ("src/kernels/ref/b.cc", "float f(float x) { return sinf(x); }\n", "libm"),
                ("src/model/b.cc", "double f(double x) { return std::pow(x, 2); }\n", "libm"),
                ("src/model/b.cc", "double f(A x) { return std::reduce(x.begin(), x.end()); }\n", "float order"),
                ("src/state/b.cc", "void f() { current_.store(next); }\n", "published index")]:
            with self.subTest(path=path, text=text):
                self.expect(path, text, what)
                os.remove(os.path.join(self.root, path))

    def test_second_publishing_store(self):
        self.expect("src/state/publish.cc", "void f() {\n  current_.store(a);\n  current_.store(b);\n}\n", "2 matches")

    def test_no_publishing_store(self):
        self.expect("src/state/publish.cc", "void f() {}\n", "0 matches")

    def test_file_budget(self):
        self.expect("src/io/b.cc", lines(601, "int x();\n"), "601 lines; the budget is 600")

    def test_kernels_have_a_larger_file_budget(self):
        self.write("src/kernels/b.cc", lines(900, "int x();\n"))
        self.assertEqual(self.findings(), [])
        self.expect("src/kernels/c.cc", lines(901, "int x();\n"), "the budget is 900")

    def test_function_budget(self):
        self.write("src/io/b.cc", "void A::f() const {\n" + lines(68) + "}\n")
        self.assertEqual(self.findings(), [])
        self.expect("src/io/b.cc", "void A::f() const {\n" + lines(69) + "}\n", "A::f has 71 lines; the budget is 70")

    def test_allow_list_lets_pass_and_only_shrinks(self):
        self.write("src/io/b.cc", "void f() {\n" + lines(80) + "}\n")
        self.write("tools/long_functions.txt", "src/io/b.cc f 82  # reason\n")
        self.assertEqual(self.findings(), [])
        self.expect("tools/long_functions.txt", "src/io/b.cc f 90\n", "has 82 lines now: lower its entry")
        self.write("src/io/b.cc", "void f() {\n" + lines(5) + "}\n")
        self.assertIn("needs no entry any more", self.findings()[0])

    def test_grown_entry_of_the_allow_list(self):
        self.write("tools/long_functions.txt", "src/io/b.cc f 82\n")
        self.expect("src/io/b.cc", "void f() {\n" + lines(90) + "}\n", "f has 92 lines; the budget is 82")

    def test_functions_are_found(self):
        code = """namespace a {
class B : public C {
 public:
  B(int x) : x_{x}, y_(1) {
    for (;;) { g(); }
  }
  int get() const { return x_; }
  bool operator()(int a) {
    return a;
  }
};
constexpr int kTable[] = {1, 2, 3};
enum class E { a, b };
template <typename T>
  requires std::is_integral_v<T>
T twice(T x) {
  auto f = [&](int y) { return y; };
  return {x};
}
struct alignas(64) D { int x = 1; };
std::vector<int> list() { return {1}; }
}  // namespace a
"""
        found = tidy.functions(tidy.strip(code, strings=True))
        self.assertEqual([(name, last - first + 1) for name, first, last in found],
                         [("B", 3), ("get", 1), ("operator()", 3), ("twice", 6), ("list", 1)])

    def test_pragma_once(self):
        self.expect("src/base/b.h", "// x\nint x();\n", "no #pragma once")

    def test_comment_share_of_a_public_header(self):
        self.expect("src/state/layout.h", "// one\n#pragma once\n" + lines(9, "int x();\n"), "public header")

    def test_banned_words(self):
        for word in ("TO" + "DO", "FIX" + "ME", "X" + "XX"):
            self.expect("docs/b.md", f"a {word} here\n", word)

    def test_machine_path(self):
        self.expect("docs/b.md", "see /ro" + "ot/file\n", "a path of one machine")

    def test_fast_math(self):
        self.expect("CMakeLists.txt", "add_compile_options(-ff" + "ast-math)\n", "re-associates")

    def test_tree_size(self):
        with open(os.path.join(self.root, "big.bin"), "wb") as file:
            file.truncate(40_000_000)
        found = self.findings()
        self.assertEqual(len(found), 1)
        self.assertIn("40.", found[0])

    def test_dead_link(self):
        self.expect("docs/b.md", "[gone](gone.md)\n", "leads nowhere")

    def test_exit_code(self):
        command = [sys.executable, os.path.join(HERE, "tidy.py"), self.root]
        self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 0)
        self.write("src/base/b.h", "int x();\n")
        self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 1)


if __name__ == "__main__":
    unittest.main()
