// What a command-line program asks of the operating system besides files: where it stands, whether people or pipes read it,
// and the signals that stop it.
#pragma once

#include <atomic>
#include <string>

#include "base/result.h"

namespace evros::io {

/// Call first in main(). Code::unsupported when the limit of the shell leaves less stack than kernels and parsers need, whose
/// overflow would be a crash; threads get the same. Standard streams that the caller closed become ones that fail, so that no file which is opened
/// later takes their place; a file that grows beyond a limit of the shell is an error of that write, not a signal.
Status prepare_process();

/// The folder of the running executable.
Result<std::string> program_folder();

enum class Stream { in, out, err };
/// Is this stream a terminal?
bool is_terminal(Stream stream);

/// Everything from standard input until its end; Code::bad_file beyond `limit` bytes, Code::cancelled when a caught signal
/// interrupts it.
Result<std::string> read_standard_input(uint64_t limit);
/// The same of whatever has a name: a file, a device, or a pipe, whose writer is waited for.
Result<std::string> read_stream(const std::string& path, uint64_t limit);

/// From now on Ctrl-C (SIGINT) sets `flag` and interrupts a blocking read instead of ending the program. The flag lives as
/// long as the program does.
void catch_interrupt(std::atomic<bool>& flag);

/// For work that cleans up when it is stopped: from now on the first SIGINT, SIGTERM or SIGHUP sets `flag`, as above, and a
/// second one of its kind ends the program. A signal that the caller ignores, as nohup does, stays ignored.
void catch_stop(std::atomic<bool>& flag);
/// The exit code by which shells know the signal that was caught last, 128 + its number; 0 when there was none.
int signal_exit_code();

}  // namespace evros::io
