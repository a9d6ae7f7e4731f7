#include "server/page.h"

#include <algorithm>

namespace evros::server {
namespace {

using namespace std::string_view_literals;

constexpr PageFile kFiles[] = {
#include "server/page_files.inc"  // cmake/page.cmake makes it
};

}  // namespace

const PageFile* page_file(std::string_view path) {
  const auto* found =
      std::find_if(std::begin(kFiles), std::end(kFiles), [&](const PageFile& f) { return f.path == path; });
  return found == std::end(kFiles) ? nullptr : found;
}

std::span<const PageFile> page_files() { return kFiles; }

}  // namespace evros::server
