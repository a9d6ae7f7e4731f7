#include "io/process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/str.h"

namespace evros::io {
namespace {

constexpr rlim_t kLeastStack = 512 << 10;

std::atomic<bool>* g_interrupted = nullptr;  // written once, before the handler is installed

std::atomic<int> g_signal{0};

void on_signal(int number) {
  g_signal.store(number, std::memory_order_relaxed);
  g_interrupted->store(true, std::memory_order_relaxed);
}

bool is_ignored(int number) {
  struct sigaction now {};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

void catch_signal(int number, int flags) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = flags;  // without SA_RESTART: a blocking read returns
  ::sigaction(number, &action, nullptr);
}

Result<std::string> read_all(int fd, const std::string& name, uint64_t limit) {
  constexpr size_t kPart = 65536;
  std::string text, part(kPart, '\0');  // on no stack, which the shell may keep small
  while (true) {
    const ssize_t n = ::read(fd, part.data(), part.size());
    if (n < 0 && errno == EINTR) return Error{Code::cancelled, cat("interrupted while reading ", name)};
    if (n < 0) return Error{Code::io, cat(name, " cannot be read: ", std::strerror(errno))};
    if (n == 0) return text;
    text.append(part.data(), static_cast<size_t>(n));
    if (text.size() > limit)
      return Error{Code::bad_file, cat(name, " is longer than the ", limit, " bytes that are accepted here")};
  }
}

}  // namespace

Status prepare_process() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // Open for reading alone: what is written is refused, and reading ends at once.
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", O_RDONLY);  // takes the lowest free number
  }
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit stack{};
  if (::getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= kLeastStack) return {};
  return Error{Code::unsupported, cat("the shell allows a stack of ", stack.rlim_cur >> 10,
                                      " KiB (ulimit -s); wanted are at least ", kLeastStack >> 10, " KiB")};
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

Result<std::string> read_standard_input(uint64_t limit) { return read_all(STDIN_FILENO, "standard input", limit); }

Result<std::string> read_stream(const std::string& path, uint64_t limit) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == EINTR) return Error{Code::cancelled, cat("interrupted while waiting for ", path)};
  if (fd < 0) {
    return Error{errno == ENOENT || errno == ENOTDIR ? Code::not_found : Code::io,
                 cat("cannot open ", path, ": ", std::strerror(errno))};
  }
  auto text = read_all(fd, path, limit);
  ::close(fd);
  return text;
}

void catch_interrupt(std::atomic<bool>& flag) {
  g_interrupted = &flag;
  catch_signal(SIGINT, 0);
}

void catch_stop(std::atomic<bool>& flag) {
  g_interrupted = &flag;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(number)) catch_signal(number, SA_RESETHAND);
  }
}

int signal_exit_code() {
  const int number = g_signal.load(std::memory_order_relaxed);
  return number == 0 ? 0 : 128 + number;
}

}  // namespace evros::io
