// The web page that lives in the program: the files of src/server/page, as they are in the source tree. Plain HTML, CSS and
// JavaScript modules; nothing is fetched from elsewhere, so kPagePolicy can forbid it.
#pragma once

#include <span>
#include <string_view>

namespace evros::server {

/// One file. Everything lives as long as the process.
struct PageFile {
  std::string_view path;  // "/" for index.html, "/NAME" for the others
  std::string_view content_type;
  std::string_view body;
  std::string_view etag;  // quoted, as the header has it: changes with the bytes and with nothing else
};

/// Content-Security-Policy for all of them: no inline script or style, nothing from other hosts, no frame around it, and no
/// text that a script makes into markup.
inline constexpr std::string_view kPagePolicy =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

/// The file at this path, which begins with '/'; null for every other path. Any thread.
const PageFile* page_file(std::string_view path);

/// All of them, in no particular order.
std::span<const PageFile> page_files();

}  // namespace evros::server
