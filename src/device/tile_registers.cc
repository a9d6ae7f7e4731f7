#include "device/tile_registers.h"

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace evros::device {

bool take_tile_registers() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr int kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM: Documentation/arch/x86/xstate.rst of Linux
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace evros::device
