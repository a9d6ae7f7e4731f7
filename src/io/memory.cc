#include "io/memory.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "base/str.h"

namespace evros::io {
namespace {

constexpr size_t kShortFile = 16u << 10;
constexpr size_t kMountsFile = 256u << 10;
constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kUnlimited = uint64_t{1} << 60;  // version 1 writes a number near 2^63 for "no limit"

/// What the process holds, as /proc/self/status counts it.
struct Own {
  uint64_t resident, pageable, mapped, data, threads;  // pageable: without what can be read from its file again
};

Own read_own(Io& io) {
  const std::string status = read_kernel_file(io, "/proc/self/status", kShortFile);
  const uint64_t resident = number_after(status, "VmRSS:") << 10;
  const uint64_t of_files = number_after(status, "RssFile:") << 10;
  return {resident, resident - std::min(resident, of_files), number_after(status, "VmSize:") << 10,
          number_after(status, "VmData:") << 10, number_after(status, "Threads:", 1)};
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Where a hierarchy of groups is mounted, and which of its groups is the top of the mount.
struct Mount {
  std::string point, root;
};

/// The first mount of this file system type that has the option, "" for any.
std::optional<Mount> find_mount(std::string_view mounts, std::string_view type, std::string_view option) {
  for (const std::string_view line : split(mounts, '\n')) {
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto before = split(line.substr(0, dash), ' ');
    const auto after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3 || after[0] != type) continue;
    const auto options = split(after[2], ',');
    if (!option.empty() && std::find(options.begin(), options.end(), option) == options.end()) continue;
    return Mount{std::string(before[4]), std::string(before[3])};
  }
  return {};
}

/// The files of one version of control groups.
struct Version {
  std::vector<std::string_view> limits;
  std::string_view usage, active, inactive;  // the last two are keys of memory.stat
};

const Version kVersion1{
    {"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_active_file ", "total_inactive_file "};
const Version kVersion2{{"memory.max", "memory.high"}, "memory.current", "\nactive_file ", "\ninactive_file "};

/// What is left of one group, if it has a limit.
std::optional<uint64_t> left_of_group(Io& io, const std::string& folder, const Version& version) {
  uint64_t limit = kNone;
  for (const std::string_view name : version.limits) {
    limit = std::min(limit, number_after(read_kernel_file(io, join(folder, name), kShortFile), "", kNone));
  }
  if (limit >= kUnlimited) return {};
  const uint64_t used = number_after(read_kernel_file(io, join(folder, version.usage), kShortFile), "");
  const std::string stat = read_kernel_file(io, join(folder, "memory.stat"), kShortFile);
  const uint64_t cache = number_after(stat, version.active) + number_after(stat, version.inactive);
  const uint64_t held = used - std::min(used, cache);
  return limit - std::min(limit, held);
}

void add_groups(Io& io, const Mount& mount, std::string group, const Version& version, uint64_t own,
                std::vector<MemoryLimit>& limits) {
  // A container sees its groups from the outside (the mount's root says from where) or from the inside.
  if (mount.root != "/" && group.compare(0, mount.root.size(), mount.root) == 0) group.erase(0, mount.root.size());
  if (group.find("..") != std::string::npos) group.clear();
  while (!group.empty() && group.back() == '/') group.pop_back();
  while (true) {
    const std::string folder = mount.point + group;
    if (const auto left = left_of_group(io, folder, version)) {
      limits.push_back({cat("cgroup ", group.empty() ? "/" : group), *left + own, false});
    }
    if (group.empty()) return;
    group.resize(std::min(group.rfind('/'), group.size()));
  }
}

void add_control_groups(Io& io, const Own& own, std::vector<MemoryLimit>& limits) {
  const std::string groups = read_kernel_file(io, "/proc/self/cgroup", kShortFile);
  const std::string mounts = read_kernel_file(io, "/proc/self/mountinfo", kMountsFile);
  for (const std::string_view line : split(groups, '\n')) {  // hierarchy:controllers:group
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const auto names = split(controllers, ',');
    const bool unified = controllers.empty();
    if (!unified && std::find(names.begin(), names.end(), "memory") == names.end()) continue;
    const auto mount = unified ? find_mount(mounts, "cgroup2", "") : find_mount(mounts, "cgroup", "memory");
    if (!mount) continue;
    add_groups(io, *mount, std::string(line.substr(second + 1)), unified ? kVersion2 : kVersion1, own.pageable, limits);
  }
}

void add_shell_limits(Io& io, const Own& own, std::vector<MemoryLimit>& limits) {
  const std::string text = read_kernel_file(io, "/proc/self/limits", kShortFile);
  const auto add = [&](std::string_view key, const char* name, uint64_t used) {
    const uint64_t limit = number_after(text, key, kNone);  // "unlimited" is no number
    if (limit == kNone) return;
    limits.push_back({name, limit - std::min(limit, used) + own.resident, true});
  };
  add("Max address space", "ulimit -v", own.mapped);
  add("Max data size", "ulimit -d", own.data);
}

}  // namespace

std::string read_kernel_file(Io& io, const std::string& path, size_t limit) {
  std::string text;
  const auto file = io.open(path);
  if (!file.ok()) return text;
  // Reads of a File are whole or fail: the step shrinks until it has found the end.
  for (size_t step = 4096; step > 0 && text.size() < limit;) {
    const size_t had = text.size();
    text.resize(had + std::min(step, limit - had));
    if ((*file)->read_at(had, std::as_writable_bytes(std::span(text).subspan(had))).ok()) continue;
    text.resize(had);
    step /= 2;
  }
  return text;
}

uint64_t number_after(std::string_view text, std::string_view key, uint64_t none) {
  const size_t found = text.find(key);
  if (found == std::string_view::npos) return none;
  const size_t at = text.find_first_not_of(" \t", found + key.size());
  if (at == std::string_view::npos) return none;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  return error == std::errc() ? value : none;
}

uint64_t MemoryMeasure::left(const MemoryLimit& limit, uint64_t mapped_bytes) const {
  return limit.bytes - (limit.address_space ? std::min(limit.bytes, mapped_bytes) : 0);
}

const MemoryLimit* MemoryMeasure::smallest(uint64_t mapped_bytes) const {
  const auto least = std::min_element(limits.begin(), limits.end(), [&](const MemoryLimit& a, const MemoryLimit& b) {
    return left(a, mapped_bytes) < left(b, mapped_bytes);
  });
  return least == limits.end() ? nullptr : &*least;
}

MemoryMeasure measure_memory(Io& io) {
  MemoryMeasure measure;
  const Own own = read_own(io);
  measure.own_bytes = own.resident;
  measure.threads = own.threads;
  const std::string machine = read_kernel_file(io, "/proc/meminfo", kShortFile);
  if (const uint64_t available = number_after(machine, "MemAvailable:", kNone); available != kNone) {
    measure.limits.push_back({"available memory", (available << 10) + own.pageable, false});
  }
  if (number_after(read_kernel_file(io, "/proc/sys/vm/overcommit_memory", kShortFile), "") == 2) {
    const uint64_t limit = number_after(machine, "CommitLimit:") << 10;
    const uint64_t promised = number_after(machine, "Committed_AS:") << 10;
    measure.limits.push_back({"vm.overcommit_memory 2", limit - std::min(limit, promised) + own.resident, true});
  }
  add_control_groups(io, own, measure.limits);
  add_shell_limits(io, own, measure.limits);
  std::sort(measure.limits.begin(), measure.limits.end(),
            [](const MemoryLimit& a, const MemoryLimit& b) { return a.bytes < b.bytes; });
  return measure;
}

}  // namespace evros::io
