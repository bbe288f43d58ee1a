// Parses any bytes as a request, at once and in parts as they arrive. An accepted request must equal the
// bytes sent, and further bytes must not change the result.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/http/http_request.h"

using lockstep::HttpRequest;
using lockstep::ParseHttpRequest;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::optional<HttpRequest> whole = ParseHttpRequest(bytes);
  for (size_t length = 0; length < size; length += 1 + size / 64) {
    const std::optional<HttpRequest> part = ParseHttpRequest(bytes.substr(0, length));
    if (!part) continue;
    if (!whole || whole->status != part->status || whole->path != part->path) std::abort();
  }
  if (!whole || whole->status != 200) return 0;
  const bool plain = std::all_of(whole->path.begin(), whole->path.end(),
                                 [](char c) { return static_cast<unsigned char>(c) > ' ' && c != '?'; });
  if (whole->path.empty() || whole->path[0] != '/' || !plain) std::abort();
  return 0;
}
