// What a command-line program asks of the operating system besides files: where it stands, whether people or pipes read it,
// and the interrupt key.
#pragma once

#include <atomic>
#include <string>

#include "base/result.h"

namespace evros::io {

/// Call first in main(). Standard streams that the caller closed become ones that fail, so that no file which is opened
/// later takes their place; a file that grows beyond a limit of the shell is an error of that write, not a signal.
void prepare_process();

/// The folder of the running executable.
Result<std::string> program_folder();

enum class Stream { in, out, err };
/// Is this stream a terminal?
bool is_terminal(Stream stream);

/// Everything from standard input until its end; refused beyond `limit` bytes.
Result<std::string> read_standard_input(uint64_t limit);

/// From now on Ctrl-C (SIGINT) sets `flag` and interrupts a blocking read instead of ending the program. The flag lives as
/// long as the program does.
void catch_interrupt(std::atomic<bool>& flag);

}  // namespace evros::io
