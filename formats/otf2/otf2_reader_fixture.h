// Reads an OTF2 archive as text with the official library's reader, for tests: the tree, and the events of
// each location.
#ifndef LOCKSTEP_FORMATS_OTF2_OTF2_READER_FIXTURE_H_
#define LOCKSTEP_FORMATS_OTF2_OTF2_READER_FIXTURE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::formats {

struct Otf2Contents {
  // Events by the names of the location's group and of the location, as in "rank 0 GPU 0 / stream 7". Times
  // are nanoseconds since the earliest event. Examples:
  //   "0 enter gemm correlation=1", "5 leave gemm", "0 begin", "5 end op=11 comm=dp root=- sent=8 received=8
  //   sequence=3"
  std::map<std::string, std::vector<std::string>> locations;
  std::map<std::string, std::string> regions;  // "role 1 paradigm 5 description", by name
  std::map<std::string, std::vector<std::string>>
      communicators;              // names of their locations, in the order of ranks
  std::vector<std::string> tree;  // nodes, groups and their properties
  uint64_t ticks_per_second = 0, length = 0, realtime = 0;
  uint64_t stated_events = 0, events = 0;
};

// The test fails if the reader refuses a part, if events do not nest, or if times go back.
Otf2Contents ReadOtf2(const std::string& folder);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_OTF2_OTF2_READER_FIXTURE_H_
