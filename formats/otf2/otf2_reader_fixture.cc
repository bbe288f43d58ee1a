#include "formats/otf2/otf2_reader_fixture.h"

#include <gtest/gtest.h>
#include <otf2/otf2.h>

#include "absl/strings/str_cat.h"

namespace lockstep::formats {
namespace {

constexpr auto kOk = OTF2_CALLBACK_SUCCESS;

struct State {
  Otf2Contents out;
  std::map<uint32_t, std::string> strings, regions, groups, communicators, attributes, nodes;
  std::map<uint64_t, std::string> locations;
  std::map<uint32_t, std::vector<uint64_t>> members;  // of OTF2's groups
  std::vector<uint64_t> communicating;
  std::map<uint64_t, std::vector<uint32_t>> open;  // regions, by location
  std::map<uint64_t, int> collectives_open;
  std::map<uint64_t, uint64_t> last;

  std::string Attributes(OTF2_AttributeList* list) const {
    std::string text;
    for (const auto& attribute : attributes) {
      uint64_t value = 0;
      if (!OTF2_AttributeList_TestAttributeByID(list, attribute.first)) continue;
      EXPECT_EQ(OTF2_AttributeList_GetUint64(list, attribute.first, &value), OTF2_SUCCESS);
      absl::StrAppend(&text, " ", attribute.second, "=", value);
    }
    return text;
  }
  void Add(uint64_t location, uint64_t time, const std::string& text) {
    EXPECT_GE(time, last[location]) << "time goes back";
    last[location] = time;
    out.locations[locations.at(location)].push_back(absl::StrCat(time, " ", text));
    ++out.events;
  }
};

State& Of(void* user) { return *static_cast<State*>(user); }
std::string Size(uint32_t value) { return value == OTF2_UNDEFINED_UINT32 ? "-" : absl::StrCat(value); }

void SetDefinitions(OTF2_GlobalDefReaderCallbacks* c) {
  OTF2_GlobalDefReaderCallbacks_SetClockPropertiesCallback(
      c, [](void* u, uint64_t ticks, uint64_t offset, uint64_t length, uint64_t realtime) {
        EXPECT_EQ(offset, 0u);
        Of(u).out.ticks_per_second = ticks;
        Of(u).out.length = length;
        Of(u).out.realtime = realtime;
        return kOk;
      });
  OTF2_GlobalDefReaderCallbacks_SetStringCallback(c, [](void* u, OTF2_StringRef self, const char* text) {
    EXPECT_TRUE(Of(u).strings.emplace(self, text).second);
    return kOk;
  });
  OTF2_GlobalDefReaderCallbacks_SetAttributeCallback(
      c, [](void* u, OTF2_AttributeRef self, OTF2_StringRef name, OTF2_StringRef, OTF2_Type) {
        Of(u).attributes[self] = Of(u).strings.at(name);
        return kOk;
      });
  OTF2_GlobalDefReaderCallbacks_SetSystemTreeNodeCallback(c, [](void* u, OTF2_SystemTreeNodeRef self,
                                                                OTF2_StringRef name, OTF2_StringRef kind,
                                                                OTF2_SystemTreeNodeRef parent) {
    State& s = Of(u);
    s.nodes[self] = s.strings.at(name);
    s.out.tree.push_back(absl::StrCat(s.strings.at(kind), " ", s.strings.at(name),
                                      parent == OTF2_UNDEFINED_SYSTEM_TREE_NODE ? "" : " in ",
                                      parent == OTF2_UNDEFINED_SYSTEM_TREE_NODE ? "" : s.nodes.at(parent)));
    return kOk;
  });
  OTF2_GlobalDefReaderCallbacks_SetLocationGroupCallback(
      c, [](void* u, OTF2_LocationGroupRef self, OTF2_StringRef name, OTF2_LocationGroupType type,
            OTF2_SystemTreeNodeRef node, OTF2_LocationGroupRef creator) {
        State& s = Of(u);
        s.groups[self] = s.strings.at(name);
        s.out.tree.push_back(absl::StrCat(
            type == OTF2_LOCATION_GROUP_TYPE_ACCELERATOR ? "device " : "process ", s.strings.at(name), " on ",
            s.nodes.at(node), creator == OTF2_UNDEFINED_LOCATION_GROUP ? "" : " of ",
            creator == OTF2_UNDEFINED_LOCATION_GROUP ? "" : s.groups.at(creator)));
        return kOk;
      });
  OTF2_GlobalDefReaderCallbacks_SetLocationGroupPropertyCallback(
      c, [](void* u, OTF2_LocationGroupRef group, OTF2_StringRef name, OTF2_Type, OTF2_AttributeValue value) {
        State& s = Of(u);
        s.out.tree.push_back(
            absl::StrCat(s.groups.at(group), " ", s.strings.at(name), " = ", s.strings.at(value.stringRef)));
        return kOk;
      });
  OTF2_GlobalDefReaderCallbacks_SetLocationCallback(
      c, [](void* u, OTF2_LocationRef self, OTF2_StringRef name, OTF2_LocationType, uint64_t events,
            OTF2_LocationGroupRef group) {
        State& s = Of(u);
        const std::string full = absl::StrCat(s.groups.at(group), " / ", s.strings.at(name));
        s.locations[self] = full;
        EXPECT_TRUE(s.out.locations.emplace(full, std::vector<std::string>()).second)
            << "two locations are " << full;
        s.out.stated_events += events;
        return kOk;
      });
  OTF2_GlobalDefReaderCallbacks_SetRegionCallback(
      c,
      [](void* u, OTF2_RegionRef self, OTF2_StringRef name, OTF2_StringRef, OTF2_StringRef description,
         OTF2_RegionRole role, OTF2_Paradigm paradigm, OTF2_RegionFlag, OTF2_StringRef, uint32_t, uint32_t) {
        State& s = Of(u);
        s.regions[self] = s.strings.at(name);
        s.out.regions[s.strings.at(name)] =
            absl::StrCat("role ", int{role}, " paradigm ", int{paradigm}, " ", s.strings.at(description));
        return kOk;
      });
  OTF2_GlobalDefReaderCallbacks_SetGroupCallback(
      c, [](void* u, OTF2_GroupRef self, OTF2_StringRef, OTF2_GroupType type, OTF2_Paradigm, OTF2_GroupFlag,
            uint32_t count, const uint64_t* members) {
        if (type == OTF2_GROUP_TYPE_COMM_LOCATIONS) Of(u).communicating.assign(members, members + count);
        Of(u).members[self].assign(members, members + count);
        return kOk;
      });
  OTF2_GlobalDefReaderCallbacks_SetCommCallback(c, [](void* u, OTF2_CommRef self, OTF2_StringRef name,
                                                      OTF2_GroupRef group, OTF2_CommRef, OTF2_CommFlag) {
    State& s = Of(u);
    s.communicators[self] = s.strings.at(name);
    for (const uint64_t member : s.members.at(group)) {
      s.out.communicators[s.strings.at(name)].push_back(s.locations.at(s.communicating.at(member)));
    }
    return kOk;
  });
}

void SetEvents(OTF2_GlobalEvtReaderCallbacks* c) {
  OTF2_GlobalEvtReaderCallbacks_SetEnterCallback(c, [](OTF2_LocationRef at, OTF2_TimeStamp time, void* u,
                                                       OTF2_AttributeList* list, OTF2_RegionRef region) {
    State& s = Of(u);
    s.open[at].push_back(region);
    s.Add(at, time, absl::StrCat("enter ", s.regions.at(region), s.Attributes(list)));
    return kOk;
  });
  OTF2_GlobalEvtReaderCallbacks_SetLeaveCallback(
      c, [](OTF2_LocationRef at, OTF2_TimeStamp time, void* u, OTF2_AttributeList*, OTF2_RegionRef region) {
        State& s = Of(u);
        EXPECT_TRUE(!s.open[at].empty() && s.open[at].back() == region) << "leaves what it is not in";
        EXPECT_EQ(s.collectives_open[at], 0) << "a collective sticks out of its kernel";
        if (!s.open[at].empty()) s.open[at].pop_back();
        s.Add(at, time, absl::StrCat("leave ", s.regions.at(region)));
        return kOk;
      });
  OTF2_GlobalEvtReaderCallbacks_SetMpiCollectiveBeginCallback(
      c, [](OTF2_LocationRef at, OTF2_TimeStamp time, void* u, OTF2_AttributeList*) {
        ++Of(u).collectives_open[at];
        Of(u).Add(at, time, "begin");
        return kOk;
      });
  OTF2_GlobalEvtReaderCallbacks_SetMpiCollectiveEndCallback(
      c, [](OTF2_LocationRef at, OTF2_TimeStamp time, void* u, OTF2_AttributeList* list, OTF2_CollectiveOp op,
            OTF2_CommRef comm, uint32_t root, uint64_t sent, uint64_t received) {
        State& s = Of(u);
        --s.collectives_open[at];
        s.Add(at, time,
              absl::StrCat("end op=", int{op}, " comm=", s.communicators.at(comm), " root=", Size(root),
                           " sent=", sent, " received=", received, s.Attributes(list)));
        return kOk;
      });
  OTF2_GlobalEvtReaderCallbacks_SetMpiSendCallback(
      c, [](OTF2_LocationRef at, OTF2_TimeStamp time, void* u, OTF2_AttributeList*, uint32_t to,
            OTF2_CommRef comm, uint32_t, uint64_t bytes) {
        Of(u).Add(at, time,
                  absl::StrCat("send to=", to, " comm=", Of(u).communicators.at(comm), " bytes=", bytes));
        return kOk;
      });
  OTF2_GlobalEvtReaderCallbacks_SetMpiRecvCallback(c, [](OTF2_LocationRef at, OTF2_TimeStamp time, void* u,
                                                         OTF2_AttributeList*, uint32_t from,
                                                         OTF2_CommRef comm, uint32_t, uint64_t bytes) {
    Of(u).Add(at, time,
              absl::StrCat("receive from=", from, " comm=", Of(u).communicators.at(comm), " bytes=", bytes));
    return kOk;
  });
}

void ReadDefinitions(OTF2_Reader* reader, State& state) {
  OTF2_GlobalDefReader* definitions = OTF2_Reader_GetGlobalDefReader(reader);
  OTF2_GlobalDefReaderCallbacks* callbacks = OTF2_GlobalDefReaderCallbacks_New();
  SetDefinitions(callbacks);
  OTF2_Reader_RegisterGlobalDefCallbacks(reader, definitions, callbacks, &state);
  OTF2_GlobalDefReaderCallbacks_Delete(callbacks);
  uint64_t count = 0;
  EXPECT_EQ(OTF2_Reader_ReadAllGlobalDefinitions(reader, definitions, &count), OTF2_SUCCESS);
  EXPECT_GT(count, 0u);
}

void ReadEvents(OTF2_Reader* reader, State& state) {
  for (const auto& location : state.locations)
    EXPECT_EQ(OTF2_Reader_SelectLocation(reader, location.first), OTF2_SUCCESS);
  EXPECT_EQ(OTF2_Reader_OpenDefFiles(reader), OTF2_SUCCESS);
  EXPECT_EQ(OTF2_Reader_OpenEvtFiles(reader), OTF2_SUCCESS);
  for (const auto& location : state.locations) {
    OTF2_DefReader* own = OTF2_Reader_GetDefReader(reader, location.first);
    EXPECT_NE(own, nullptr);
    uint64_t count = 0;
    EXPECT_EQ(OTF2_Reader_ReadAllLocalDefinitions(reader, own, &count), OTF2_SUCCESS);
    OTF2_Reader_CloseDefReader(reader, own);
    EXPECT_NE(OTF2_Reader_GetEvtReader(reader, location.first), nullptr);
  }
  OTF2_Reader_CloseDefFiles(reader);
  OTF2_GlobalEvtReader* events = OTF2_Reader_GetGlobalEvtReader(reader);
  OTF2_GlobalEvtReaderCallbacks* callbacks = OTF2_GlobalEvtReaderCallbacks_New();
  SetEvents(callbacks);
  OTF2_Reader_RegisterGlobalEvtCallbacks(reader, events, callbacks, &state);
  OTF2_GlobalEvtReaderCallbacks_Delete(callbacks);
  uint64_t count = 0;
  EXPECT_EQ(OTF2_Reader_ReadAllGlobalEvents(reader, events, &count), OTF2_SUCCESS);
  OTF2_Reader_CloseGlobalEvtReader(reader, events);
  OTF2_Reader_CloseEvtFiles(reader);
}

}  // namespace

Otf2Contents ReadOtf2(const std::string& folder) {
  State state;
  OTF2_Reader* reader = OTF2_Reader_Open((folder + "/traces.otf2").c_str());
  EXPECT_NE(reader, nullptr) << folder;
  if (reader == nullptr) return {};
  OTF2_Reader_SetSerialCollectiveCallbacks(reader);
  ReadDefinitions(reader, state);
  // The library cannot read an archive without locations.
  if (!state.locations.empty()) ReadEvents(reader, state);
  OTF2_Reader_Close(reader);
  for (const auto& open : state.open)
    EXPECT_TRUE(open.second.empty()) << state.locations[open.first] << ": an enter without its leave";
  EXPECT_EQ(state.out.stated_events, state.out.events);
  return state.out;
}

}  // namespace lockstep::formats
