#include "formats/perfetto/tar_writer.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::formats {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kLongestName = 99;
constexpr uint64_t kLargestFile = (uint64_t{1} << 33) - 1;  // the field has eleven octal digits

// A header is one block of text fields. Source: POSIX pax, ustar interchange format.
struct Header {
  std::array<char, kBlock> bytes = {};

  void Put(size_t offset, std::string_view text) {
    std::memcpy(bytes.data() + offset, text.data(), text.size());
  }
};

std::string_view HeaderOf(std::string_view name, uint64_t size, Header& header) {
  header.Put(0, name);
  header.Put(100, "0000644");
  header.Put(108, "0000000");
  header.Put(116, "0000000");
  header.Put(124, absl::StrFormat("%011o", size));
  header.Put(136, "00000000000");
  header.Put(148, "        ");  // blanks while the checksum is computed
  header.Put(156, "0");
  header.Put(257, std::string_view("ustar\00000", 8));
  const uint32_t sum = std::accumulate(header.bytes.begin(), header.bytes.end(), 0u,
                                       [](uint32_t s, char c) { return s + static_cast<uint8_t>(c); });
  header.Put(148, absl::StrFormat("%06o", sum));
  header.bytes[154] = '\0';
  return {header.bytes.data(), kBlock};
}

}  // namespace

absl::Status TarWriter::Add(std::string_view name, std::string_view bytes) {
  if (name.size() > kLongestName || bytes.size() > kLargestFile) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a TAR archive cannot hold ", std::string(name), " of ", bytes.size(), " bytes: names have up to ",
        kLongestName, " bytes, files less than 8 GiB; choose fewer ranks or a shorter window"));
  }
  Header header;
  absl::Status status = sink_.Append(HeaderOf(name, bytes.size(), header));
  if (status.ok()) status = sink_.Append(bytes);
  const size_t rest = bytes.size() % kBlock;
  return !status.ok() || rest == 0 ? status : sink_.Append(std::string(kBlock - rest, '\0'));
}

absl::Status TarWriter::Finish() { return sink_.Append(std::string(2 * kBlock, '\0')); }

}  // namespace lockstep::formats
