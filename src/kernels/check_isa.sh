#!/bin/sh
# Checks the object files of one instruction set: check_isa.sh NAMESPACE yes|no OBJECT...
# No inline function may be shared with another instruction set (the linker would pick either copy), and fused multiply-add
# instructions stand in the objects that may have them (yes: at least one, and no call of fmaf) and in no others (no).
namespace=$1 fused=$2
shift 2
bad=0
for object in "$@"; do
  shared=$(nm "$object" | grep -E ' [WVu] ' | c++filt | grep -v "evros::kernels::$namespace::")
  if [ -n "$shared" ]; then
    echo "$object: inline functions outside evros::kernels::$namespace:"
    echo "$shared"
    bad=1
  fi
done
count=$(objdump -d --no-show-raw-insn "$@" | grep -cE 'vf(n?)m(add|sub)')
calls=$(nm "$@" | grep -cE ' U fmaf?$')
echo "$namespace: $count fused instructions, $calls objects that call fmaf"
if [ "$fused" = yes ] && { [ "$count" -eq 0 ] || [ "$calls" -ne 0 ]; }; then bad=1; fi
if [ "$fused" = no ] && [ "$count" -ne 0 ]; then bad=1; fi
exit $bad
