#include "server/page.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "base/sha256.h"

namespace evros::server {
namespace {

const std::filesystem::path kSources = std::filesystem::path(EVROS_SOURCE_DIR) / "src/server/page";

std::string source(const std::string& name) {
  std::ifstream file(kSources / name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// What `expression` captures in `text`, each once.
std::set<std::string> captures(std::string_view text, const char* expression) {
  const std::regex regex(expression);
  const std::string copy(text);
  std::set<std::string> found;
  for (std::sregex_iterator match(copy.begin(), copy.end(), regex), end; match != end; ++match) {
    found.insert((*match)[1].str());
  }
  return found;
}

TEST(Page, EveryFileOfTheSourceTreeIsThereByteForByte) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kSources)) {
    const std::string name = entry.path().filename().string();
    const PageFile* file = page_file(name == "index.html" ? "/" : "/" + name);
    ASSERT_NE(file, nullptr) << name;
    EXPECT_EQ(file->body, source(name)) << name;
    files++;
  }
  EXPECT_EQ(page_files().size(), files);
  EXPECT_GE(files, 4u);
}

TEST(Page, AnEtagIsTheDigestOfTheBytesSoThatACacheNeverShowsAnOldPage) {
  for (const PageFile& file : page_files()) {
    Sha256 sha;
    sha.update(std::as_bytes(std::span(file.body)));
    EXPECT_EQ(file.etag, '"' + hex(sha.finish()).substr(0, 32) + '"') << file.path;
  }
}

TEST(Page, NoOtherPathLeadsAnywhere) {
  for (const char* path :
       {"", "index.html", "/index.html", "//", "/app.js/", "/../page.cc", "/page_files.inc", "/APP.JS", "/app.js?"}) {
    EXPECT_EQ(page_file(path), nullptr) << path;
  }
}

TEST(Page, ContentTypesLetABrowserTakeThemWithoutGuessing) {
  EXPECT_EQ(page_file("/")->content_type, "text/html; charset=utf-8");
  EXPECT_EQ(page_file("/app.js")->content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(page_file("/style.css")->content_type, "text/css; charset=utf-8");
  EXPECT_EQ(page_file("/favicon.svg")->content_type, "image/svg+xml");
}

TEST(Page, NothingRefersToAFileThatIsMissingOrToAnotherHost) {
  for (const std::string& path : captures(page_file("/")->body, R"re((?:href|src)="(/[^"]*)")re")) {
    EXPECT_NE(page_file(path), nullptr) << path;
  }
  for (const PageFile& file : page_files()) {
    for (const std::string& path : captures(file.body, R"re(from '\.(/[^']*)')re")) {
      EXPECT_NE(page_file(path), nullptr) << path << " in " << file.path;
    }
    // The name of the SVG namespace is an address that nobody visits.
    std::set<std::string> hosts = captures(file.body, R"re((https?://[^\s"'<>]*))re");
    hosts.erase("http://www.w3.org/2000/svg");
    EXPECT_TRUE(hosts.empty()) << *hosts.begin() << " in " << file.path;
    EXPECT_EQ(file.body.find("@import"), std::string_view::npos) << file.path;
    EXPECT_EQ(file.body.find("url("), std::string_view::npos) << file.path;
  }
}

TEST(Page, NothingNeedsMoreThanTheContentSecurityPolicyAllows) {
  const std::string_view html = page_file("/")->body;
  EXPECT_TRUE(captures(html, R"re((\son\w+\s*=))re").empty());
  EXPECT_TRUE(captures(html, R"re((\sstyle\s*=))re").empty());
  EXPECT_TRUE(captures(html, R"re((<style))re").empty());
  EXPECT_TRUE(captures(html, R"re((<script(?![^>]*\ssrc=)[^>]*>))re").empty());
  for (const PageFile& file : page_files()) {
    EXPECT_TRUE(
        captures(file.body, R"re((innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function))re")
            .empty())
        << file.path;
  }
}

TEST(Page, AllOfItStaysSmall) {
  size_t bytes = 0;
  for (const PageFile& file : page_files()) bytes += file.body.size();
  EXPECT_LT(bytes, 60u * 1024);
}

}  // namespace
}  // namespace evros::server
