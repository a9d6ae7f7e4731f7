#include "io/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/str.h"

namespace evros::io {
namespace {

std::atomic<bool>* g_interrupted = nullptr;  // written once, before the handler is installed

void on_interrupt(int) { g_interrupted->store(true, std::memory_order_relaxed); }

}  // namespace

void prepare_process() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // Open for reading alone: what is written is refused, and reading ends at once.
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", O_RDONLY);  // takes the lowest free number
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

Result<std::string> program_folder() {
  std::array<char, 4096> path;
  const ssize_t n = ::readlink("/proc/self/exe", path.data(), path.size());
  if (n <= 0) return Error{Code::io, cat("/proc/self/exe cannot be read: ", std::strerror(errno))};
  const std::string full(path.data(), static_cast<size_t>(n));
  return full.substr(0, full.rfind('/'));
}

bool is_terminal(Stream stream) {
  return ::isatty(stream == Stream::in ? STDIN_FILENO : stream == Stream::out ? STDOUT_FILENO : STDERR_FILENO) == 1;
}

Result<std::string> read_standard_input(uint64_t limit) {
  std::string text;
  std::array<char, 65536> part;
  while (true) {
    const ssize_t n = ::read(STDIN_FILENO, part.data(), part.size());
    if (n < 0 && errno == EINTR) return Error{Code::cancelled, "interrupted while reading standard input"};
    if (n < 0) return Error{Code::io, cat("standard input cannot be read: ", std::strerror(errno))};
    if (n == 0) return text;
    text.append(part.data(), static_cast<size_t>(n));
    if (text.size() > limit)
      return Error{Code::invalid_argument, cat("standard input is longer than ", limit, " bytes")};
  }
}

void catch_interrupt(std::atomic<bool>& flag) {
  g_interrupted = &flag;
  struct sigaction action {};
  action.sa_handler = on_interrupt;  // without SA_RESTART: a blocking read returns
  ::sigaction(SIGINT, &action, nullptr);
}

}  // namespace evros::io
