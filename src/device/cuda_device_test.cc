// The program's side of the CUDA device, against a backend that is a script: which call fails, and how.
#include "device/cuda_device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace evros::device {
namespace {

// What the scripted backend answers. Host memory stands for the GPU's.
struct Script {
  EvrosCudaResult open{}, allocate{}, transfer{}, launched{}, finish{};
  int calls = 0, opened = 0, closed = 0, allocated = 0;
} g;

EvrosCudaResult count(const EvrosCudaResult& result) {
  ++g.calls;
  return result;
}

EvrosCudaResult open(int, void** stream) {
  *stream = &g;
  if (g.open.name == nullptr) ++g.opened;
  return count(g.open);
}
void close(void*) { ++g.closed; }
EvrosCudaResult memory(uint64_t* free_bytes, uint64_t* total) {
  *free_bytes = 7;
  *total = 100;
  return {};
}
EvrosCudaResult allocate(uint64_t bytes, void** data) {
  if (g.allocate.name == nullptr) {
    *data = new std::byte[bytes];
    ++g.allocated;
  }
  return count(g.allocate);
}
EvrosCudaResult release(void* data) {
  delete[] static_cast<std::byte*>(data);
  --g.allocated;
  return count({});
}
EvrosCudaResult move(void*, void* to, const void* from, uint64_t bytes) {
  if (g.transfer.name == nullptr) std::memcpy(to, from, bytes);
  return count(g.transfer);
}
EvrosCudaResult fill(void*, void* to, uint8_t value, uint64_t bytes) {
  if (g.transfer.name == nullptr) std::memset(to, value, bytes);
  return count(g.transfer);
}
EvrosCudaResult finish(void*) { return count(g.finish); }
EvrosCudaResult launched() { return count(g.launched); }

constexpr EvrosCudaBackend kScripted{
    kEvrosCudaVersion, open, close, memory, allocate, release, move, move, move, fill, finish, launched};

std::unique_ptr<Device> scripted() {
  g = Script{};
  auto made = make_cuda_device(kScripted, nullptr);
  EXPECT_TRUE(made.ok());
  return std::move(made).value();
}

Status launch(Device& device, void** stream) {
  return device.launch({"embed", -1, 0, {}, {}}, [&](Queue& queue) {
    EXPECT_EQ(queue.pool, nullptr);
    *stream = queue.stream;
  });
}

TEST(CudaDevice, MovesBytesAndLaunchesOnItsStream) {
  const auto device = scripted();
  EXPECT_EQ(device->name(), "cuda:0");
  EXPECT_FALSE(device->host_addressable());
  {
    auto buffer = device->allocate(16, "a test");
    ASSERT_TRUE(buffer.ok());
    const std::string in = "sixteen bytes ..", zero;
    std::string out(16, '-');
    ASSERT_TRUE(device->upload(buffer->data(), std::as_bytes(std::span(in))).ok());
    ASSERT_TRUE(device->download(std::as_writable_bytes(std::span(out)), buffer->data()).ok());
    EXPECT_EQ(in, out);
    const int calls = g.calls;
    EXPECT_TRUE(device->upload(buffer->data(), {}).ok());
    EXPECT_EQ(g.calls, calls) << "nothing to move asks nobody";
    void* stream = nullptr;
    ASSERT_TRUE(launch(*device, &stream).ok());
    EXPECT_EQ(stream, &g);
  }
  EXPECT_EQ(g.allocated, 0);
}

TEST(CudaDevice, AFailureThatLeavesTheContextIsAnErrorWithCudasName) {
  const auto device = scripted();
  void* stream = nullptr;
  g.launched = {"cudaErrorInvalidConfiguration", "invalid configuration argument", false, false};
  const Status refused = launch(*device, &stream);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::device);
  EXPECT_EQ(refused.error().message,
            "cuda:0: embed failed with cudaErrorInvalidConfiguration (invalid configuration argument)");
  EXPECT_FALSE(device->lost());
  g.launched = {};
  EXPECT_TRUE(launch(*device, &stream).ok());
  EXPECT_EQ(device->free_memory(), 7u);
  g.allocate = {"cudaErrorMemoryAllocation", "out of memory", true, false};
  const auto none = device->allocate(200, "3 state banks");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Code::out_of_memory);
  EXPECT_EQ(none.error().message,
            "cuda:0 has no 200 bytes of memory for 3 state banks (cudaErrorMemoryAllocation; 7 of 100 bytes are free)");
}

TEST(CudaDevice, AStickyErrorAnswersEverythingAtOnceWithTheSameSentence) {
  auto device = scripted();
  auto buffer = device->allocate(4, "a test");
  ASSERT_TRUE(buffer.ok());
  g.finish = {"cudaErrorIllegalAddress", "an illegal memory access was encountered", false, true};
  const Status first = device->finish();
  ASSERT_FALSE(first.ok());
  EXPECT_TRUE(device->lost());
  EXPECT_NE(first.error().message.find("cudaErrorIllegalAddress"), std::string::npos);
  const int calls = g.calls;
  std::byte byte{};
  void* stream = nullptr;
  for (const Status& later :
       {device->finish(), launch(*device, &stream), device->upload(buffer->data(), {&byte, 1}),
        device->download({&byte, 1}, buffer->data()), device->copy(buffer->data(), buffer->data(), 1),
        device->fill(buffer->data(), 0, 1), Status(device->allocate(1, "a test").error())}) {
    ASSERT_FALSE(later.ok());
    EXPECT_EQ(later.error().code, Code::device);
    EXPECT_EQ(later.error().message, first.error().message);
  }
  EXPECT_EQ(stream, nullptr) << "a stage ran on a lost device";
  std::byte* const data = buffer->data();
  { const Buffer gone = std::move(*buffer); }
  EXPECT_EQ(g.calls, calls) << "a lost device was asked";
  device.reset();
  EXPECT_EQ(g.closed, 0) << "its stream went with it";
  delete[] data;
}

TEST(CudaDevice, WhatIsMissingIsSaid) {
  g = Script{};
  const auto sentence = [](const EvrosCudaResult& opened) {
    g.open = opened;
    const auto made = make_cuda_device(kScripted, nullptr);
    EXPECT_FALSE(made.ok());
    return made.ok() ? "" : made.error().message;
  };
  EXPECT_NE(sentence({"cudaErrorInsufficientDriver", "", false, false}).find("no NVIDIA driver"), std::string::npos);
  EXPECT_NE(sentence({"cudaErrorNoDevice", "", false, false}).find("no NVIDIA GPU"), std::string::npos);
  EXPECT_NE(sentence({"cudaErrorDevicesUnavailable", "busy", false, false}).find("cudaErrorDevicesUnavailable (busy)"),
            std::string::npos);
  EvrosCudaBackend other = kScripted;
  other.version = 99;
  const auto wrong = make_cuda_device(other, nullptr);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("version 99"), std::string::npos);
}

TEST(CudaDevice, ALibraryThatIsNotThereOrIsNoneIsAnErrorThatNamesIt) {
  const std::string folder = testing::TempDir() + "evros_no_cuda";
  std::filesystem::create_directories(folder);
  std::filesystem::remove(folder + "/" + kCudaLibrary);
  const auto absent = open_cuda_device({folder});
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, Code::unsupported);
  EXPECT_EQ(absent.error().message, "this program has no CUDA library: there is no " + folder + "/" + kCudaLibrary);
  std::ofstream(folder + "/" + kCudaLibrary) << "not a library";
  const auto damaged = open_cuda_device({folder});
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code, Code::unsupported);
  EXPECT_NE(damaged.error().message.find(kCudaLibrary), std::string::npos) << damaged.error().message;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace evros::device
