#include "capture/model/copy_name.h"

#include <array>
#include <iterator>
#include <string_view>

namespace lockstep::capture {
namespace {

// Indexed by CUPTI's numbers, as is MemoryName.
std::string CopyKindName(uint8_t copy_kind) {
  constexpr std::array<std::string_view, 11> kNames = {
      "Memcpy",      "Memcpy HtoD", "Memcpy DtoH", "Memcpy HtoA", "Memcpy AtoH", "Memcpy AtoA",
      "Memcpy AtoD", "Memcpy DtoA", "Memcpy DtoD", "Memcpy HtoH", "Memcpy PtoP"};
  return std::string(kNames[copy_kind < kNames.size() ? copy_kind : 0]);
}

std::string MemoryName(uint8_t kind) {
  constexpr std::string_view kNames[] = {"Unknown", "Pageable", "Pinned",        "Device",
                                         "Array",   "Managed",  "Device Static", "Managed Static"};
  return std::string(kNames[kind < std::size(kNames) ? kind : 0]);
}

}  // namespace

std::string CopyName(ActivityKind kind, const CopyDetail& detail) {
  constexpr uint8_t kDeviceMemory = 3;
  if (kind == ActivityKind::kMemset)
    return "Memset (" + MemoryName(detail.dst_kind == 0 ? kDeviceMemory : detail.dst_kind) + ")";
  return CopyKindName(detail.copy_kind) + " (" + MemoryName(detail.src_kind) + " -> " +
         MemoryName(detail.dst_kind) + ")";
}

}  // namespace lockstep::capture
