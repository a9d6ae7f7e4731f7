#!/bin/sh
# Checks a linked test program: check_link.sh NAMESPACE PROGRAM
# No fused multiply-add stands outside NAMESPACE, wherever the linker took its inline functions from, and the tests pass.
set -eu
objdump -d --no-show-raw-insn "$2" | c++filt | awk -v namespace="evros::kernels::$1::" '
  /^[0-9a-f]+ <.*>:$/ { name = $0 }
  /vfn?m(add|sub)/ { ++fused; if (!index(name, namespace) && !seen[name]++) { print "fused multiply-add in " name; bad = 1 } }
  END { print fused + 0, "fused instructions"; exit bad || !fused }'
exec "$2" --gtest_filter='-*MathSweep*' --gtest_brief=1
