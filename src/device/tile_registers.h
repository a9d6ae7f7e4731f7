// The tile registers of x86-64 processors (AMX).
#pragma once

namespace evros::device {

/// Asks the operating system for them: they are larger than all other registers together, so Linux gives them only to processes
/// that ask, then to all threads. False where it does not, or does not know them. Asking again changes nothing.
bool take_tile_registers();

}  // namespace evros::device
