// Feeds any bytes to the reader of Flight Recorder dumps, and its result to the explanation.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "analysis/hang/explain_hang.h"
#include "formats/flight_recorder/flight_recorder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  analysis::HangJob job;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // Two ranks with the same operations reach more of the explanation.
  for (const int32_t rank : {0, 1}) formats::AddFlightRecorderDump(bytes, RankId(rank), job).IgnoreError();
  formats::AgeFromNewest(job);
  analysis::ExplainHang(job, Nanos());
  return 0;
}
