// Feeds any bytes to the reader of nvprof's traces. All rows that it keeps must be in order.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "capture/model/consistency_fixture.h"
#include "formats/common/byte_source.h"
#include "formats/nvprof/nvprof_reader.h"

namespace {

using namespace lockstep;

void Read(std::string_view text) {
  formats::MemorySource source(text);
  auto capture = formats::ReadNvprof(source, {"fuzz.csv", true, "fuzz.csv"}, nullptr);
  if (!capture.ok()) return;
  capture::Finish(*capture);
  capture::AbortIfInconsistent(*capture);
  for (const capture::RankData& rank : capture->ranks) {
    if (rank.host >= capture->hosts.size()) std::abort();
    for (const capture::DeviceActivity& a : rank.activities) {
      if (a.start < rank.window.start || a.end > rank.window.end) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  Read(bytes);
  // Most random text lacks the table's header. After it, the same bytes reach more of the reader.
  Read("\"Start\",\"Duration\",\"Grid X\",\"Size\",\"Device\",\"Stream\",\"Name\"\nms,us,,KB,,,\n" + bytes);
  return 0;
}
