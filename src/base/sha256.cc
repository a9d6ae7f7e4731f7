#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace evros {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

// The functions fail for lack of memory, or when the machine's OpenSSL is configured without the algorithm.
Sha256::Sha256() : context_(std::make_unique<Context>()) {
  CHECK(context_->evp != nullptr);
  CHECK(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256::finish() {
  Sha256Digest out;
  unsigned int size = 0;
  CHECK(EVP_DigestFinal_ex(context_->evp, reinterpret_cast<unsigned char*>(out.data()), &size) == 1);
  CHECK(size == out.size());
  return out;
}

std::string hex(const Sha256Digest& digest) {
  std::string out;
  for (const std::byte byte : digest) {
    for (const int shift : {4, 0}) out.push_back("0123456789abcdef"[(static_cast<unsigned>(byte) >> shift) & 15]);
  }
  return out;
}

}  // namespace evros
