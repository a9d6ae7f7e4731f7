// The two Ios must agree where readers rely on them: no short reads, holes read as zeros, errors that name the path.
#include "io/io.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "io/memory_io.h"
#include "io/process.h"

namespace evros::io {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

class IoTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = testing::TempDir() + "evros_io_" + test.substr(0, test.find('/'));
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(io().make_folder(folder_ + "/deep/er").ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Io& io() { return GetParam() ? static_cast<Io&>(memory_) : real_io(); }
  std::string at(std::string_view name) const { return join(folder_, name); }

  MemoryIo memory_;
  std::string folder_;
};

TEST_P(IoTest, WhatWasWrittenIsReadBackAtAnyOffset) {
  auto file = io().create(at("a"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_TRUE((*file)->write_at(0, bytes_of("0123456789")).ok());
  ASSERT_TRUE((*file)->write_at(4, bytes_of("xy")).ok());
  ASSERT_TRUE((*file)->sync().ok());
  EXPECT_EQ((*file)->size(), 10U);
  auto again = io().open(at("a"));
  ASSERT_TRUE(again.ok());
  char out[4];
  ASSERT_TRUE((*again)->read_at(3, std::as_writable_bytes(std::span(out))).ok());
  EXPECT_EQ(std::string_view(out, 4), "3xy6");
  EXPECT_EQ((*again)->path(), at("a"));
}

TEST_P(IoTest, AHintOfReadingChangesNothingWhereverItPoints) {
  auto made = io().create(at("hint"));
  ASSERT_TRUE(made.ok());
  File* const file = made->get();
  ASSERT_TRUE(file->write_at(0, bytes_of("some bytes")).ok());
  for (const uint64_t offset : {uint64_t{0}, uint64_t{9}, uint64_t{4096}, ~uint64_t{0}}) {
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 40, ~uint64_t{0}}) {
      file->will_read(offset, bytes);
    }
  }
  EXPECT_EQ(file->size(), 10U);
  EXPECT_EQ(*read_file(io(), at("hint"), 10), "some bytes");
}

TEST_P(IoTest, AReadPastTheEndIsAnErrorAndNeverShort) {
  auto file = io().create(at("a"));
  ASSERT_TRUE((*file)->write_at(0, bytes_of("0123456789")).ok());
  char out[4];
  for (const uint64_t offset : {uint64_t{7}, uint64_t{10}, uint64_t{11}, ~uint64_t{0}, uint64_t{1} << 63}) {
    const Status status = (*file)->read_at(offset, std::as_writable_bytes(std::span(out)));
    ASSERT_FALSE(status.ok()) << offset;
    EXPECT_EQ(status.error().code, Code::bad_file);
    EXPECT_NE(status.error().message.find(at("a")), std::string::npos);
  }
  EXPECT_TRUE((*file)->read_at(6, std::as_writable_bytes(std::span(out))).ok());
}

TEST_P(IoTest, GrowingAFileLeavesAHoleOfZeros) {
  auto file = io().create(at("hole"));
  ASSERT_TRUE((*file)->truncate(1 << 16).ok());
  EXPECT_EQ((*file)->size(), 1U << 16);
  ASSERT_TRUE((*file)->write_at((1 << 17), bytes_of("end")).ok());
  EXPECT_EQ((*file)->size(), (1U << 17) + 3);
  const auto content = read_file(io(), at("hole"), 1 << 20);
  ASSERT_TRUE(content.ok());
  EXPECT_EQ(*content, std::string(1 << 17, '\0') + "end");
  ASSERT_TRUE((*file)->truncate(2).ok());
  EXPECT_EQ(*read_file(io(), at("hole"), 2), std::string(2, '\0'));
}

// On a file system with holes, as every one is that Linux installs on.
TEST_P(IoTest, AHoleTakesNoStorageAndWrittenBytesDo) {
  constexpr uint64_t kLength = 16u << 20;
  auto file = io().create(at("sparse"));
  ASSERT_TRUE((*file)->truncate(kLength).ok());
  ASSERT_TRUE((*file)->write_at(kLength / 2, bytes_of("x")).ok());
  ASSERT_TRUE((*file)->sync().ok());
  EXPECT_GT((*file)->allocated_bytes(), 0u);
  if (GetParam())
    EXPECT_EQ((*file)->allocated_bytes(), kLength);  // memory has no holes
  else
    EXPECT_LT((*file)->allocated_bytes(), kLength / 8);
}

TEST_P(IoTest, ReadFileRefusesAFileBeyondItsLimitAndNamesIt) {
  ASSERT_TRUE((*io().create(at("big")))->write_at(0, bytes_of("12345")).ok());
  EXPECT_EQ(*read_file(io(), at("big"), 5), "12345");
  const auto refused = read_file(io(), at("big"), 4);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::bad_file);
  EXPECT_NE(refused.error().message.find(at("big")), std::string::npos);
  EXPECT_NE(refused.error().message.find("5 bytes"), std::string::npos);
}

TEST_P(IoTest, AMissingFileIsNotFoundByNameInEveryCall) {
  const std::string gone = at("gone");
  const auto expect = [&](const Error& error) {
    EXPECT_EQ(error.code, Code::not_found);
    EXPECT_NE(error.message.find(gone), std::string::npos) << error.message;
  };
  expect(io().open(gone).error());
  expect(io().remove(gone).error());
  expect(io().rename(gone, at("x")).error());
  expect(io().list(gone).error());
  EXPECT_FALSE(io().exists(gone));
  EXPECT_FALSE(io().is_folder(gone));
}

TEST_P(IoTest, RenameReplacesAndListIsSorted) {
  for (const char* name : {"b", "c", "a"}) ASSERT_TRUE((*io().create(at(name)))->write_at(0, bytes_of(name)).ok());
  ASSERT_TRUE(io().rename(at("b"), at("c")).ok());
  ASSERT_TRUE(io().remove(at("deep/er")).ok());
  ASSERT_TRUE(io().sync_folder(folder_).ok());
  const auto names = io().list(folder_);
  ASSERT_TRUE(names.ok());
  std::vector<std::string> files = *names;
  std::erase(files, "deep");
  EXPECT_EQ(files, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(*read_file(io(), at("c"), 10), "b");
  EXPECT_TRUE(io().is_folder(folder_));
  EXPECT_TRUE(io().exists(at("c")));
}

INSTANTIATE_TEST_SUITE_P(Both, IoTest, testing::Values(false, true),
                         [](const auto& which) { return which.param ? "memory" : "real"; });

TEST(RealIo, AFolderCannotBeOpenedAsAFile) {
  const auto opened = real_io().open(testing::TempDir());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, Code::io);
}

/// Pipes and devices: no length, no positions, and a pipe without a writer would be waited for.
TEST(RealIo, WhatIsNoRegularFileIsRefusedAtOnceByEveryReader) {
  const std::string pipe = testing::TempDir() + "evros_io_pipe";
  ::unlink(pipe.c_str());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const auto& [path, kind] : {std::pair(pipe, "is a pipe"), {std::string("/dev/zero"), "is a device"}}) {
    for (const Error& error : {real_io().open(path).error(), read_file(real_io(), path, 100).error()}) {
      EXPECT_EQ(error.code, Code::bad_file) << path;
      EXPECT_NE(error.message.find(path + ' ' + kind), std::string::npos) << error.message;
    }
  }
  ASSERT_EQ(::unlink(pipe.c_str()), 0);
}

TEST(Stream, EverythingWithANameIsReadToItsEndAndNotBeyondTheLimit) {
  const std::string file = testing::TempDir() + "evros_io_text", pipe = testing::TempDir() + "evros_io_text_pipe";
  const std::string text(200'000, 'x');  // more than a pipe holds
  ASSERT_TRUE((*real_io().create(file))->write_at(0, bytes_of(text)).ok());
  ::unlink(pipe.c_str());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const uint64_t limit : {uint64_t{200'000}, uint64_t{199'999}}) {
    std::signal(SIGPIPE, SIG_IGN);
    std::thread writer([&] { std::ofstream(pipe) << text; });
    const auto piped = read_stream(pipe, limit), stored = read_stream(file, limit);
    writer.join();
    std::signal(SIGPIPE, SIG_DFL);
    for (const auto* got : {&piped, &stored}) {
      ASSERT_EQ(got->ok(), limit == text.size());
      if (got->ok())
        EXPECT_EQ(**got, text);
      else
        EXPECT_NE(got->error().message.find("199999 bytes"), std::string::npos) << got->error().message;
    }
  }
  EXPECT_FALSE(read_stream("/dev/zero", 100).ok());
  EXPECT_EQ(*read_stream("/dev/null", 100), "");
  EXPECT_NE(*read_stream("/proc/self/status", 1 << 20), "");  // whose length the system gives as 0
  EXPECT_EQ(read_stream(file + ".absent", 100).error().code, Code::not_found);
  EXPECT_NE(read_stream(testing::TempDir(), 100).error().message.find(testing::TempDir()), std::string::npos);
  ASSERT_EQ(::unlink(pipe.c_str()), 0);
  ASSERT_TRUE(real_io().remove(file).ok());
}

TEST(RealIo, FreeSpaceIsWhatTheLibraryFindsAndUnknownWithoutAFolder) {
  const std::string path = testing::TempDir() + "evros_io_not_there_yet";
  const uint64_t wanted = std::filesystem::space(testing::TempDir()).available;
  const uint64_t found = real_io().free_bytes(path);
  EXPECT_LT(found > wanted ? found - wanted : wanted - found, uint64_t{4} << 30);  // others write at the same time
  EXPECT_EQ(real_io().free_bytes("/nowhere/at/all"), ~uint64_t{0});
}

TEST(RealIo, AFolderThatIsMissingOrClosedIsToldBeforeTheWork) {
  const std::string folder = testing::TempDir() + "evros_io_closed";
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(real_io().make_folder(folder + "/closed").ok());
  ASSERT_TRUE(real_io().create(folder + "/file").ok());
  ASSERT_EQ(::chmod((folder + "/closed").c_str(), 0500), 0);
  std::vector<std::string> wrong = {folder + "/absent", folder + "/absent/deep", folder + "/file"};
  if (::geteuid() != 0) wrong.push_back(folder + "/closed");  // nothing is closed to the superuser
  for (const std::string& in : wrong) {
    const Status status = real_io().check_target(in + "/new");
    ASSERT_FALSE(status.ok()) << in;
    EXPECT_NE(status.error().message.find(in + "/new"), std::string::npos) << status.error().message;
    EXPECT_NE(status.error().message.find(in + ":"), std::string::npos) << status.error().message;
    EXPECT_FALSE(real_io().create(in + "/new").ok());
  }
  EXPECT_TRUE(real_io().check_target("plain_name_in_this_folder").ok());
  EXPECT_TRUE(real_io().check_target(folder + "/new").ok());
  std::filesystem::remove_all(folder);
}

TEST(RealIo, AFileInTheWayOfAFolderIsNamed) {
  const std::string path = testing::TempDir() + "evros_io_in_the_way";
  ASSERT_TRUE(real_io().create(path).ok());
  const Status made = real_io().make_folder(path + "/sub");
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find(path), std::string::npos);
  ASSERT_TRUE(real_io().remove(path).ok());
}

TEST(RealIo, WritingToAFileOpenedForReadingIsRefusedBySystem) {
  const std::string path = testing::TempDir() + "evros_io_read_only";
  ASSERT_TRUE(real_io().create(path).ok());
  const auto file = real_io().open(path);
  EXPECT_EQ((*file)->write_at(0, bytes_of("x")).error().code, Code::io);
  EXPECT_EQ((*file)->truncate(~uint64_t{0}).error().code, Code::io);
  ASSERT_TRUE(real_io().remove(path).ok());
}

// Two writers of one file would otherwise publish a mixture under the name of a good file.
TEST(RealIo, ASecondWriterInThisProcessIsBusyAndHarmsNothing) {
  const std::string path = testing::TempDir() + "evros_io_two_writers";
  auto first = real_io().create(path);
  ASSERT_TRUE((*first)->write_at(0, bytes_of("first")).ok());
  const auto second = real_io().create(path);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::busy);
  EXPECT_NE(second.error().message.find(path), std::string::npos);
  EXPECT_EQ(*read_file(real_io(), path, 100), "first");
  *first = nullptr;
  EXPECT_TRUE(real_io().create(path).ok());
  EXPECT_EQ(*read_file(real_io(), path, 100), "");
  ASSERT_TRUE(real_io().remove(path).ok());
}

TEST(RealIo, AWriterThatGoesOnKeepsWhatIsThereAndKeepsOthersOut) {
  const std::string path = testing::TempDir() + "evros_io_go_on";
  static_cast<void>(real_io().remove(path).ok());
  {
    const auto file = real_io().create_or_keep(path);  // there was none
    ASSERT_TRUE(file.ok());
    EXPECT_EQ((*file)->size(), 0u);
    ASSERT_TRUE((*file)->write_at(0, bytes_of("begun")).ok());
  }
  const auto file = real_io().create_or_keep(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->size(), 5u);
  ASSERT_TRUE((*file)->write_at(5, bytes_of(" and done")).ok());
  EXPECT_EQ(*read_file(real_io(), path, 100), "begun and done");
  EXPECT_EQ(real_io().create_or_keep(path).error().code, Code::busy);
  EXPECT_EQ(real_io().create(path).error().code, Code::busy);
  ASSERT_TRUE(real_io().remove(path).ok());
}

TEST(RealIo, AWriterInAnotherProcessKeepsOthersOutUntilItDies) {
  const std::string path = testing::TempDir() + "evros_io_two_processes";
  int started[2];
  ASSERT_EQ(::pipe(started), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto held = real_io().create(path);
    const bool told = held.ok() && (*held)->write_at(0, bytes_of("child")).ok() && ::write(started[1], "x", 1) == 1;
    if (told) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(started[0], &byte, 1), 1);
  const auto refused = real_io().create(path);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::busy);
  EXPECT_EQ(*read_file(real_io(), path, 100), "child");
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(real_io().create(path).ok()) << "what a killed program leaves behind is taken over";
  ::close(started[0]);
  ::close(started[1]);
  ASSERT_TRUE(real_io().remove(path).ok());
}

TEST(RealIo, AFileThatIsRenamedWhileOpenLeavesItsNameToTheNextWriter) {
  const std::string from = testing::TempDir() + "evros_io_grown.partial", to = testing::TempDir() + "evros_io_grown";
  auto first = real_io().create(from);
  ASSERT_TRUE((*first)->write_at(0, bytes_of("first")).ok());
  ASSERT_TRUE(real_io().rename(from, to).ok());
  const auto second = real_io().create(from);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(*read_file(real_io(), to, 100), "first");
  ASSERT_TRUE(real_io().remove(from).ok());
  ASSERT_TRUE(real_io().remove(to).ok());
}

// A rename would put a pipe or a device out of the way and leave a plain file there.
TEST(RealIo, PipesLinksAndFoldersAreNoTargets) {
  const std::string folder = testing::TempDir() + "evros_io_targets";
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(real_io().make_folder(folder + "/folder").ok());
  const std::string source = folder + "/source", link = folder + "/link", pipe = folder + "/pipe";
  ASSERT_TRUE(real_io().create(source).ok());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink(source, link);
  for (const std::string& target : {folder + "/folder", link, pipe, std::string()}) {
    const auto refuses = [&](const Status& status) {
      ASSERT_FALSE(status.ok()) << target;
      EXPECT_EQ(status.error().code, Code::invalid_argument) << target;
      EXPECT_NE(status.error().message.find(target.empty() ? "empty" : target), std::string::npos);
    };
    refuses(real_io().check_target(target));
    refuses(real_io().rename(source, target));
    const auto created = real_io().create(target);
    refuses(created.ok() ? Status{} : Status{created.error()});
  }
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_TRUE(real_io().check_target(source).ok());
  EXPECT_TRUE(real_io().check_target(folder + "/new").ok());
  std::filesystem::remove_all(folder);
}

TEST(RealIo, OneFileUnderTwoNamesIsSeenAsOne) {
  const std::string folder = testing::TempDir() + "evros_io_names";
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(real_io().make_folder(folder).ok());
  ASSERT_TRUE(real_io().create(folder + "/a").ok());
  ASSERT_TRUE(real_io().create(folder + "/other").ok());
  std::filesystem::create_hard_link(folder + "/a", folder + "/hard");
  std::filesystem::create_symlink(folder + "/a", folder + "/soft");
  for (const char* name : {"/a", "/./a", "/hard", "/soft"})
    EXPECT_TRUE(real_io().same_file(folder + "/a", folder + name));
  for (const char* name : {"/other", "/absent"}) EXPECT_FALSE(real_io().same_file(folder + "/a", folder + name));
  std::filesystem::remove_all(folder);
}

TEST(RealIo, TheClockMovesForward) {
  const uint64_t before = real_io().now_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_GE(real_io().now_ns() - before, 1'000'000U);
}

TEST(Join, PutsExactlyOneSlashBetween) {
  EXPECT_EQ(join("a", "b"), "a/b");
  EXPECT_EQ(join("a/", "b"), "a/b");
  EXPECT_EQ(join("", "b"), "b");
}

}  // namespace
}  // namespace evros::io
