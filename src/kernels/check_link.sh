#!/bin/sh
# Checks a linked test program: check_link.sh PROGRAM NAMESPACE...
# No fused multiply-add stands outside the namespaces, wherever the linker took its inline functions from, and the tests pass.
set -eu
program=$1
shift
objdump -d --no-show-raw-insn "$program" | c++filt | awk -v sets="$*" '
  BEGIN { count = split(sets, set, " ") }
  /^[0-9a-f]+ <.*>:$/ { name = $0; inside = 0; for (i = 1; i <= count; ++i) if (index(name, "evros::kernels::" set[i] "::")) inside = 1 }
  /vfn?m(add|sub)/ { ++fused; if (!inside && !seen[name]++) { print "fused multiply-add in " name; bad = 1 } }
  END { print fused + 0, "fused instructions"; exit bad || !fused }'
exec "$program" --gtest_filter='-*MathSweep*' --gtest_brief=1
