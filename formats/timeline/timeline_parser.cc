#include "formats/timeline/timeline_parser.h"

#include <algorithm>
#include <optional>
#include <span>

#include "formats/common/nest_ranges.h"
#include "formats/timeline/timeline_reader.h"

namespace lockstep::formats {
namespace {

// Larger numbers come from damage. The parser would allocate memory for them.
constexpr int32_t kLargestRank = (1 << 20) - 1;
constexpr uint64_t kMostMembers = uint64_t{1} << 24;
constexpr char kUnknownName[] = "-";

}  // namespace

bool TimelineParser::Line(std::string_view line) {
  if (line.empty() || line.front() == '#') return true;
  LineWords words(line);
  const std::string_view word = words.Next();
  if (word.empty()) return true;
  if (!versioned_) {
    if (word != "lockstep-timeline")
      return fields_.Fail(Sentence("the first word is ", ShownWord(word), " and not \"lockstep-timeline\""),
                          "give a timeline");
    return Version(words);
  }
  if (ended_) return fields_.Fail("text follows \"end\"", "one file holds one job");
  const bool good = word.size() == 1 ? rows_.Read(word.front(), words) : Statement(word, words);
  if (!good) return false;
  return words.AtEnd() ||
         fields_.Fail(Sentence("unexpected word ", ShownWord(words.Next())), "see docs/formats/timeline.md");
}

bool TimelineParser::Version(LineWords& words) {
  int version = 0;
  const std::string_view word = words.Next();
  if (!NumberFromWord(word, version))
    return fields_.Fail(Sentence(ShownWord(word), " is not a version"),
                        "the first line is \"lockstep-timeline 1\"");
  if (version != kTimelineVersion) {
    return fields_.Fail(
        Sentence("the timeline is of version ", version, ", this program reads ", kTimelineVersion),
        "write that one, or use a newer lockstep");
  }
  versioned_ = true;
  return words.AtEnd() ||
         fields_.Fail(Sentence(ShownWord(words.Next()), " follows the version"), "give it a line of its own");
}

bool TimelineParser::Statement(std::string_view word, LineWords& words) {
  if (word == "rank") return Rank(words);
  if (word == "base") return Base(words);
  if (word == "name") return Name(words);
  if (word == "group") return GroupStatement(words);
  if (word == "host") return HostStatement(words);
  if (word == "exchange") return Exchange(words);
  if (word == "job") return fields_.Text(words, "job", capture_.job);
  if (word == "world") return World(words);
  if (word == "note") return fields_.Text(words, "note", capture_.notes.emplace_back());
  if (word == "end") return ended_ = true;
  return fields_.Fail(Sentence(ShownWord(word), " is not a statement"), "see docs/formats/timeline.md");
}

bool TimelineParser::Base(LineWords& words) {
  int64_t base = 0;
  if (!fields_.Integer(words, "base", base)) return false;
  rows_.SetBase(base);
  return true;
}

bool TimelineParser::World(LineWords& words) {
  if (!fields_.Integer(words, "world", capture_.world_size)) return false;
  if (capture_.world_size >= 1 && capture_.world_size <= kLargestRank + 1) return true;
  return fields_.Fail(Sentence("a world of ", capture_.world_size, " ranks is impossible"),
                      "write the number of ranks of the job");
}

bool TimelineParser::HostStatement(LineWords& words) {
  capture::Host host;
  if (!fields_.Text(words, "a host", host.id)) return false;
  host.name = host.id;
  if (!words.AtEnd() && !fields_.Text(words, "a host's name", host.name)) return false;
  if (host.name == kUnknownName) host.name.clear();
  if (!host_ids_.insert(host.id).second)
    return fields_.Fail(Sentence("host ", ShownWord(host.id), " is declared twice"),
                        "ranks of one host share its line");
  capture_.hosts.push_back(std::move(host));
  return true;
}

bool TimelineParser::Exchange(LineWords& words) {
  uint32_t host = 0;
  int64_t stamps[5] = {};
  if (!fields_.Integer(words, "a host's number", host)) return false;
  if (host >= capture_.hosts.size())
    return fields_.Fail(Sentence("host ", host, " is not known yet"), "declare it above");
  for (int64_t& stamp : stamps) {
    if (!fields_.Integer(words, "a stamp", stamp)) return false;
  }
  capture_.hosts[host].exchanges.push_back({.t1 = HostTime(stamps[0]),
                                            .t2 = JobTime(stamps[1]),
                                            .t3 = JobTime(stamps[2]),
                                            .t4 = HostTime(stamps[3]),
                                            .monotonic = MonoTime(stamps[4])});
  return true;
}

bool TimelineParser::GroupStatement(LineWords& words) {
  capture::Group group;
  if (!fields_.Text(words, "a group's key", group.key) || !fields_.Text(words, "a group's name", group.name))
    return false;
  if (!Members(words.Next(), group.members)) return false;
  group.size = static_cast<int32_t>(group.members.size());
  if (!words.AtEnd()) {
    const std::string_view size = words.Next();
    if (!size.starts_with("size=")) return fields_.FailUnknown(size);
    if (!fields_.Value("size", size.substr(5), group.size)) return false;
    if (group.size < 0 || group.size > kLargestRank + 1 ||
        (!group.members.empty() && group.size != static_cast<int32_t>(group.members.size())))
      return fields_.Fail(Sentence("a group of size ", group.size, " has ", group.members.size(), " members"),
                          "leave the size out");
  }
  if (!group_keys_.insert(group.key).second)
    return fields_.Fail(Sentence("group ", ShownWord(group.key), " is declared twice"),
                        "give each communicator its own key");
  capture_.groups.push_back(std::move(group));
  return true;
}

// Reads "0-3,8", in the order of the rank in the group, or "-" if the members are unknown.
bool TimelineParser::Members(std::string_view word, std::vector<RankId>& out) {
  if (word == "-") return true;
  const auto bad = [&](std::string_view part) {
    return fields_.Fail(Sentence(ShownWord(part), " is not a list of ranks"),
                        "list them as 0-3,8 or write - where they are unknown");
  };
  std::string_view rest = word;
  do {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const size_t dash = part.find('-');
    int32_t first = 0, last = 0;
    if (!NumberFromWord(part.substr(0, dash), first)) return bad(part);
    last = first;
    if (dash != std::string_view::npos && !NumberFromWord(part.substr(dash + 1), last)) return bad(part);
    if (first < 0 || last < first || last > kLargestRank) return bad(part);
    members_ += static_cast<uint64_t>(last - first) + 1;
    if (members_ > kMostMembers)
      return fields_.Fail("the groups have more members than any job", "the file is damaged: write it again");
    for (int32_t r = first; r <= last; ++r) out.push_back(RankId(r));
    if (comma != std::string_view::npos && rest.empty()) return bad(word);
  } while (!rest.empty());
  std::vector<RankId> sorted = out;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return true;
  return fields_.Fail(Sentence("rank ", twice->value(), " is in the group twice"),
                      "list each member once, by its rank in the group");
}

bool TimelineParser::Name(LineWords& words) {
  std::string text;
  if (!fields_.Text(words, "a name", text)) return false;
  rows_.AddName(capture_.strings.Intern(text));
  return true;
}

bool TimelineParser::Rank(LineWords& words) {
  int32_t number = 0;
  if (!fields_.Integer(words, "a rank", number)) return false;
  if (number < 0 || number > kLargestRank)
    return fields_.Fail(Sentence("rank ", number, " is impossible"), "ranks count from 0");
  capture::RankData described;
  while (!words.AtEnd()) {
    const std::string_view field = words.Next();
    const size_t equals = field.find('=');
    if (equals == std::string_view::npos) return fields_.FailUnknown(field);
    if (!RankField(field.substr(0, equals), field.substr(equals + 1), described)) return false;
  }
  capture::RankData& entry = EnterRank(RankId(number), described.device, described.incarnation);
  const bool first = entry.host == capture::kNone;
  if (!first && described.host != capture::kNone && described.host != entry.host)
    return fields_.Fail(Sentence("rank ", number, " was on another host above"), "one rank has one host");
  if (first && described.host == capture::kNone)
    return fields_.Fail(Sentence("rank ", number, " has no host"), "write host= with the host's number");
  if (first) {
    entry.host = described.host;
    entry.pid = described.pid;
    entry.program = std::move(described.program);
    entry.properties = std::move(described.properties);
    entry.has_properties = !entry.properties.name.empty() || entry.properties.sms != 0;
  }
  return true;
}

bool TimelineParser::RankField(std::string_view key, std::string_view value, capture::RankData& rank) {
  const auto text = [&](std::string& out) {
    auto decoded = TextFromWord(value);
    if (!decoded)
      return fields_.Fail(Sentence(ShownWord(value), " is not a text for ", key),
                          "write one word, with %20 for a space");
    out = std::move(*decoded);
    return true;
  };
  if (key == "host") {
    if (!fields_.Value(key, value, rank.host)) return false;
    return rank.host < capture_.hosts.size() ||
           fields_.Fail(Sentence("host ", rank.host, " is not known yet"), "declare it above");
  }
  uint32_t number = 0;
  if (key == "device") {
    if (!fields_.Value(key, value, number)) return false;
    rank.device = DeviceId(number);
    return true;
  }
  if (key == "pid") return fields_.Value(key, value, rank.pid);
  if (key == "incarnation") return fields_.Value(key, value, rank.incarnation);
  if (key == "program") return text(rank.program);
  if (key == "gpu") return text(rank.properties.name);
  if (key == "sms") return fields_.Value(key, value, rank.properties.sms);
  if (key == "compute") {
    const size_t dot = value.find('.');
    return fields_.Value(key, value.substr(0, dot), rank.properties.compute_major) &&
           (dot == std::string_view::npos ||
            fields_.Value(key, value.substr(dot + 1), rank.properties.compute_minor));
  }
  return fields_.FailUnknown(key);
}

capture::RankData& TimelineParser::EnterRank(RankId id, DeviceId device, uint32_t incarnation) {
  const auto [it, fresh] = ranks_.try_emplace({id, {device, incarnation}}, capture_.ranks.size());
  if (it->second != entered_) left_.Leave(entered_, capture_.ranks);
  entered_ = it->second;
  rows_.Enter(entered_);
  if (!fresh) return capture_.ranks[it->second];
  capture::RankData& entry = capture_.ranks.emplace_back();
  entry.rank = id;
  entry.device = device;
  entry.incarnation = incarnation;
  entry.rank_source = "timeline";
  entry.window = {HostTime::Max(), HostTime::Min()};
  return entry;
}

capture::Capture TimelineParser::Take() {
  for (capture::RankData& entry : capture_.ranks) {
    if (entry.window.end < entry.window.start) entry.window = {};
    NestRanges(entry.ranges);
    left_.MoveRanges(entry);
  }
  return std::move(capture_);
}

}  // namespace lockstep::formats
