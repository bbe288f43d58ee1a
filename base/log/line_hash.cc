#include "base/log/line_hash.h"

#include <openssl/sha.h>

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace lockstep {

std::string HashOfLine(std::string_view line) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
  SHA256(reinterpret_cast<const unsigned char*>(line.data()), line.size(), hash.data());
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(hash.data()), hash.size()));
}

}  // namespace lockstep
