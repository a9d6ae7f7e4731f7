#include "io/io.h"

#include "base/str.h"

namespace evros::io {

Status Io::check_target(const std::string& path) const {
  if (path.empty()) return Error{Code::invalid_argument, "the name of the file to write is empty"};
  if (!is_folder(path)) return {};
  return Error{Code::invalid_argument, cat(path, " is a folder; wanted the name of a file to write")};
}

Result<std::unique_ptr<File>> Io::create_or_keep(const std::string& path) {
  return Error{Code::unsupported, cat(path, " cannot be gone on with here")};
}

Result<std::string> read_file(Io& io, const std::string& path, uint64_t limit) {
  EVROS_ASSIGN(const std::unique_ptr<File> file, io.open(path));
  if (file->size() > limit) {
    return Error{Code::bad_file, cat(path, " is ", file->size(), " bytes long; at most ", limit, " are accepted here")};
  }
  std::string content(static_cast<size_t>(file->size()), '\0');
  EVROS_TRY(file->read_at(0, std::as_writable_bytes(std::span(content))));
  return content;
}

std::string join(std::string_view folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  return folder.back() == '/' ? cat(folder, name) : cat(folder, '/', name);
}

}  // namespace evros::io
