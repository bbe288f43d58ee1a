// Otf2Definitions collects the definitions of an OTF2 archive while events are written, and writes them at
// the end.
#ifndef LOCKSTEP_FORMATS_OTF2_OTF2_DEFINITIONS_H_
#define LOCKSTEP_FORMATS_OTF2_OTF2_DEFINITIONS_H_

#include <otf2/otf2.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/time.h"

namespace lockstep::formats {

// Attributes of events. The values are their numbers in the archive.
enum class Otf2Attribute : OTF2_AttributeRef { kCorrelation = 0, kBytes = 1, kSequence = 2 };

// The zero of the clock is the earliest stamp of the archive.
struct Otf2Clock {
  JobTime zero;
  Nanos length;
};

// References count up in the order of the calls. Equal regions and equal strings share one reference. One
// thread.
class Otf2Definitions {
 public:
  struct Location {
    std::string name;
    OTF2_LocationType type;
    OTF2_LocationGroupRef group;
    uint64_t events = 0;
  };

  OTF2_SystemTreeNodeRef AddNode(std::string_view name, std::string_view kind, OTF2_SystemTreeNodeRef parent,
                                 OTF2_SystemTreeDomain domain);
  OTF2_LocationGroupRef AddProcess(std::string_view name, OTF2_SystemTreeNodeRef node);
  OTF2_LocationGroupRef AddDevice(std::string_view name, OTF2_SystemTreeNodeRef node,
                                  OTF2_LocationGroupRef process);
  OTF2_LocationRef AddLocation(Location location);
  OTF2_RegionRef Region(std::string_view name, std::string_view description, OTF2_RegionRole role,
                        OTF2_Paradigm paradigm);
  // `members` are locations in the order of their rank in the communicator.
  OTF2_CommRef AddCommunicator(std::string_view name, std::vector<OTF2_LocationRef> members);

  // Properties are shown by otf2-print; other tools ignore unknown ones.
  void AddNodeProperty(OTF2_SystemTreeNodeRef node, std::string_view key, std::string_view value);
  void AddProcessProperty(OTF2_LocationGroupRef group, std::string_view key, std::string_view value);

  std::vector<Location>& locations() { return locations_; }
  // Writes all definitions. Returns the first code that is not a success.
  OTF2_ErrorCode WriteTo(OTF2_GlobalDefWriter* out, const Otf2Clock& clock);

 private:
  struct Node {
    OTF2_StringRef name, kind;
    OTF2_SystemTreeNodeRef parent;
    OTF2_SystemTreeDomain domain;
  };
  struct Group {
    OTF2_StringRef name;
    OTF2_LocationGroupType type;
    OTF2_SystemTreeNodeRef node;
    OTF2_LocationGroupRef process;
  };
  struct RegionRow {
    OTF2_StringRef name, description;
    OTF2_RegionRole role;
    OTF2_Paradigm paradigm;
  };
  struct Communicator {
    OTF2_StringRef name;
    std::vector<OTF2_LocationRef> members;
  };
  struct Property {
    uint32_t of;
    OTF2_StringRef key, value;
  };

  OTF2_StringRef String(std::string_view text);
  // Each function appends to `out` and returns the first code that is not a success.
  OTF2_ErrorCode WriteTree(OTF2_GlobalDefWriter* out) const;
  OTF2_ErrorCode WriteProperties(OTF2_GlobalDefWriter* out) const;
  OTF2_ErrorCode WriteLocations(OTF2_GlobalDefWriter* out, const std::vector<OTF2_StringRef>& names) const;
  OTF2_ErrorCode WriteCommunicators(OTF2_GlobalDefWriter* out, OTF2_StringRef all_name) const;

  std::deque<std::string> strings_;
  absl::flat_hash_map<std::string_view, OTF2_StringRef> string_refs_;
  std::vector<Node> nodes_;
  std::vector<Group> groups_;
  std::vector<Location> locations_;
  std::vector<RegionRow> regions_;
  absl::flat_hash_map<std::tuple<OTF2_StringRef, OTF2_StringRef, OTF2_RegionRole, OTF2_Paradigm>,
                      OTF2_RegionRef>
      region_refs_;
  std::vector<Communicator> communicators_;
  std::vector<Property> node_properties_, process_properties_;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_OTF2_OTF2_DEFINITIONS_H_
