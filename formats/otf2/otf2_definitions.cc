#include "formats/otf2/otf2_definitions.h"

#include <algorithm>
#include <utility>

#include "base/json/utf8.h"

namespace lockstep::formats {
namespace {

// OTF2's strings are UTF-8 and end at a zero byte.
std::string Clean(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = text.front() == '\0' ? 0 : Utf8Length(text);
    if (length == 0) out.push_back('?');
    out.append(text.substr(0, length));
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

// Keeps the first failure of a series of calls.
class Codes {
 public:
  void operator()(OTF2_ErrorCode code) {
    if (first_ == OTF2_SUCCESS) first_ = code;
  }
  OTF2_ErrorCode first() const { return first_; }

 private:
  OTF2_ErrorCode first_ = OTF2_SUCCESS;
};

struct AttributeText {
  Otf2Attribute attribute;
  std::string_view name, description;
};
constexpr AttributeText kAttributes[] = {
    {Otf2Attribute::kCorrelation, "correlation",
     "joins a CUDA call and what it started on the device, within one process"},
    {Otf2Attribute::kBytes, "bytes",
     "copied or set; of a collective as NCCL counts them, for each rank; without it unknown, and sizes are "
     "0"},
    {Otf2Attribute::kSequence, "sequence", "of the collective, as its source counts"},
};

}  // namespace

OTF2_StringRef Otf2Definitions::String(std::string_view text) {
  std::string clean = Clean(text);
  const auto found = string_refs_.find(clean);
  if (found != string_refs_.end()) return found->second;
  const auto ref = static_cast<OTF2_StringRef>(strings_.size());
  strings_.push_back(std::move(clean));
  string_refs_.emplace(strings_.back(), ref);
  return ref;
}

OTF2_SystemTreeNodeRef Otf2Definitions::AddNode(std::string_view name, std::string_view kind,
                                                OTF2_SystemTreeNodeRef parent, OTF2_SystemTreeDomain domain) {
  nodes_.push_back({.name = String(name), .kind = String(kind), .parent = parent, .domain = domain});
  return static_cast<OTF2_SystemTreeNodeRef>(nodes_.size() - 1);
}

OTF2_LocationGroupRef Otf2Definitions::AddProcess(std::string_view name, OTF2_SystemTreeNodeRef node) {
  groups_.push_back({.name = String(name),
                     .type = OTF2_LOCATION_GROUP_TYPE_PROCESS,
                     .node = node,
                     .process = OTF2_UNDEFINED_LOCATION_GROUP});
  return static_cast<OTF2_LocationGroupRef>(groups_.size() - 1);
}

OTF2_LocationGroupRef Otf2Definitions::AddDevice(std::string_view name, OTF2_SystemTreeNodeRef node,
                                                 OTF2_LocationGroupRef process) {
  groups_.push_back(
      {.name = String(name), .type = OTF2_LOCATION_GROUP_TYPE_ACCELERATOR, .node = node, .process = process});
  return static_cast<OTF2_LocationGroupRef>(groups_.size() - 1);
}

OTF2_LocationRef Otf2Definitions::AddLocation(Location location) {
  locations_.push_back(std::move(location));
  return locations_.size() - 1;
}

OTF2_RegionRef Otf2Definitions::Region(std::string_view name, std::string_view description,
                                       OTF2_RegionRole role, OTF2_Paradigm paradigm) {
  const RegionRow row = {
      .name = String(name), .description = String(description), .role = role, .paradigm = paradigm};
  const auto ref = static_cast<OTF2_RegionRef>(regions_.size());
  const auto placed = region_refs_.try_emplace({row.name, row.description, row.role, row.paradigm}, ref);
  if (placed.second) regions_.push_back(row);
  return placed.first->second;
}

OTF2_CommRef Otf2Definitions::AddCommunicator(std::string_view name, std::vector<OTF2_LocationRef> members) {
  communicators_.push_back({.name = String(name), .members = std::move(members)});
  return static_cast<OTF2_CommRef>(communicators_.size() - 1);
}

void Otf2Definitions::AddNodeProperty(OTF2_SystemTreeNodeRef node, std::string_view key,
                                      std::string_view value) {
  node_properties_.push_back({.of = node, .key = String(key), .value = String(value)});
}

void Otf2Definitions::AddProcessProperty(OTF2_LocationGroupRef group, std::string_view key,
                                         std::string_view value) {
  process_properties_.push_back({.of = group, .key = String(key), .value = String(value)});
}

OTF2_ErrorCode Otf2Definitions::WriteTree(OTF2_GlobalDefWriter* out) const {
  Codes codes;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto self = static_cast<OTF2_SystemTreeNodeRef>(i);
    codes(OTF2_GlobalDefWriter_WriteSystemTreeNode(out, self, nodes_[i].name, nodes_[i].kind,
                                                   nodes_[i].parent));
    codes(OTF2_GlobalDefWriter_WriteSystemTreeNodeDomain(out, self, nodes_[i].domain));
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    const Group& g = groups_[i];
    codes(OTF2_GlobalDefWriter_WriteLocationGroup(out, static_cast<OTF2_LocationGroupRef>(i), g.name, g.type,
                                                  g.node, g.process));
  }
  return codes.first();
}

OTF2_ErrorCode Otf2Definitions::WriteProperties(OTF2_GlobalDefWriter* out) const {
  Codes codes;
  for (const Property& p : node_properties_) {
    codes(OTF2_GlobalDefWriter_WriteSystemTreeNodeProperty(out, p.of, p.key, OTF2_TYPE_STRING,
                                                           {.stringRef = p.value}));
  }
  for (const Property& p : process_properties_) {
    codes(OTF2_GlobalDefWriter_WriteLocationGroupProperty(out, p.of, p.key, OTF2_TYPE_STRING,
                                                          {.stringRef = p.value}));
  }
  return codes.first();
}

OTF2_ErrorCode Otf2Definitions::WriteLocations(OTF2_GlobalDefWriter* out,
                                               const std::vector<OTF2_StringRef>& names) const {
  Codes codes;
  for (size_t i = 0; i < locations_.size(); ++i) {
    codes(OTF2_GlobalDefWriter_WriteLocation(out, i, names[i], locations_[i].type, locations_[i].events,
                                             locations_[i].group));
  }
  return codes.first();
}

OTF2_ErrorCode Otf2Definitions::WriteCommunicators(OTF2_GlobalDefWriter* out, OTF2_StringRef all_name) const {
  if (communicators_.empty()) return OTF2_SUCCESS;
  // A group's members are indices into the list of all locations that communicate.
  std::vector<OTF2_LocationRef> all;
  for (const Communicator& c : communicators_) all.insert(all.end(), c.members.begin(), c.members.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  Codes codes;
  codes(OTF2_GlobalDefWriter_WriteGroup(out, 0, all_name, OTF2_GROUP_TYPE_COMM_LOCATIONS, OTF2_PARADIGM_MPI,
                                        OTF2_GROUP_FLAG_NONE, static_cast<uint32_t>(all.size()), all.data()));
  for (size_t i = 0; i < communicators_.size(); ++i) {
    const Communicator& c = communicators_[i];
    std::vector<uint64_t> places;
    for (const OTF2_LocationRef member : c.members) {
      places.push_back(static_cast<uint64_t>(std::lower_bound(all.begin(), all.end(), member) - all.begin()));
    }
    const auto group = static_cast<OTF2_GroupRef>(i + 1);
    codes(OTF2_GlobalDefWriter_WriteGroup(out, group, c.name, OTF2_GROUP_TYPE_COMM_GROUP, OTF2_PARADIGM_MPI,
                                          OTF2_GROUP_FLAG_NONE, static_cast<uint32_t>(places.size()),
                                          places.data()));
    codes(OTF2_GlobalDefWriter_WriteComm(out, static_cast<OTF2_CommRef>(i), c.name, group,
                                         OTF2_UNDEFINED_COMM, OTF2_COMM_FLAG_NONE));
  }
  return codes.first();
}

OTF2_ErrorCode Otf2Definitions::WriteTo(OTF2_GlobalDefWriter* out, const Otf2Clock& clock) {
  // All strings come first, because a definition may refer only to earlier ones.
  const OTF2_StringRef empty = String("");
  const OTF2_StringRef nccl = String("NCCL");
  const OTF2_StringRef cuda = String("CUDA");
  const OTF2_StringRef all_name = String("streams with collectives");
  std::vector<OTF2_StringRef> names;
  for (const Location& location : locations_) names.push_back(String(location.name));
  std::vector<std::pair<OTF2_StringRef, OTF2_StringRef>> attributes;
  for (const AttributeText& a : kAttributes) attributes.emplace_back(String(a.name), String(a.description));

  constexpr uint64_t kTicksPerSecond = 1000000000;
  Codes codes;
  codes(OTF2_GlobalDefWriter_WriteClockProperties(out, kTicksPerSecond, 0,
                                                  static_cast<uint64_t>(clock.length.ns()),
                                                  static_cast<uint64_t>(clock.zero.ns())));
  for (size_t i = 0; i < strings_.size(); ++i) {
    codes(OTF2_GlobalDefWriter_WriteString(out, static_cast<OTF2_StringRef>(i), strings_[i].c_str()));
  }
  codes(OTF2_GlobalDefWriter_WriteParadigm(out, OTF2_PARADIGM_CUDA, cuda, OTF2_PARADIGM_CLASS_ACCELERATOR));
  // OTF2 has collective records only for the paradigm MPI. NCCL uses that paradigm under its own name.
  codes(OTF2_GlobalDefWriter_WriteParadigm(out, OTF2_PARADIGM_MPI, nccl, OTF2_PARADIGM_CLASS_PROCESS));
  for (size_t i = 0; i < attributes.size(); ++i) {
    codes(OTF2_GlobalDefWriter_WriteAttribute(out, static_cast<OTF2_AttributeRef>(kAttributes[i].attribute),
                                              attributes[i].first, attributes[i].second, OTF2_TYPE_UINT64));
  }
  codes(WriteTree(out));
  codes(WriteProperties(out));
  codes(WriteLocations(out, names));
  for (size_t i = 0; i < regions_.size(); ++i) {
    const RegionRow& r = regions_[i];
    codes(OTF2_GlobalDefWriter_WriteRegion(out, static_cast<OTF2_RegionRef>(i), r.name, r.name, r.description,
                                           r.role, r.paradigm, OTF2_REGION_FLAG_NONE, empty, 0, 0));
  }
  codes(WriteCommunicators(out, all_name));
  return codes.first();
}

}  // namespace lockstep::formats
