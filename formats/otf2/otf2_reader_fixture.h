// An OTF2 archive read with the official library's reader, as text, for tests: who is where, and what each
// location saw.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_OTF2_READER_FIXTURE_H_
#define LOCKSTEP_AGGREGATOR_TRACE_OTF2_READER_FIXTURE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::trace {

struct Otf2Contents {
  // By the name of their group and their own, as in "rank 0 GPU 0 / stream 7". Times are nanoseconds since
  // the earliest event.
  //   "0 enter gemm correlation=1", "5 leave gemm", "0 begin", "5 end op=11 comm=dp root=- sent=8 received=8
  //   sequence=3"
  std::map<std::string, std::vector<std::string>> locations;
  std::map<std::string, std::string> regions;  // "role 1 paradigm 5 description", by name
  std::map<std::string, std::vector<std::string>>
      communicators;              // their locations by name, in the order of ranks
  std::vector<std::string> tree;  // nodes, groups and their properties
  uint64_t ticks_per_second = 0, length = 0, realtime = 0;
  uint64_t stated_events = 0, events = 0;
};

// What the reader refuses, events that do not nest and times that go back are test failures.
Otf2Contents ReadOtf2(const std::string& folder);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_OTF2_READER_FIXTURE_H_
