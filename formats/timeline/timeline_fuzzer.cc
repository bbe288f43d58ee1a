// Feeds any bytes to the reader of timelines. All rows that it keeps must be in order.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "capture/model/consistency_fixture.h"
#include "formats/common/byte_source.h"
#include "formats/timeline/timeline_reader.h"

namespace {

using namespace lockstep;

void Read(std::string_view text) {
  formats::MemorySource source(text);
  auto capture = formats::ReadTimeline(source, "fuzz.timeline", nullptr);
  if (!capture.ok()) return;
  capture::Finish(*capture);
  capture::AbortIfInconsistent(*capture);
  for (const capture::RankData& rank : capture->ranks) {
    if (rank.host >= capture->hosts.size()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  Read(bytes);
  // Most random text lacks the first line. After valid first lines, the same bytes reach more of the parser.
  Read("lockstep-timeline 1\nhost a\ngroup g g 0-3\nname x\nrank 0 host=0\n" + bytes + "\nend\n");
  return 0;
}
