#include "formats/timeline/timeline_parser.h"

#include <algorithm>
#include <optional>
#include <span>

#include "formats/common/nest_ranges.h"
#include "formats/timeline/timeline_reader.h"

namespace lockstep::trace {
namespace {

// Larger numbers are damage, not jobs; they would be allocated for.
constexpr int32_t kLargestRank = (1 << 20) - 1;
constexpr uint64_t kMostMembers = uint64_t{1} << 24;

}  // namespace

bool TimelineParser::Fail(std::string_view what, std::string_view remedy) {
  error_ = Sentence(what, "; ", remedy);
  return false;
}

bool TimelineParser::Line(std::string_view line) {
  if (line.empty() || line.front() == '#') return true;
  LineWords words(line);
  const std::string_view word = words.Next();
  if (word.empty()) return true;
  if (!versioned_) {
    if (word != "lockstep-timeline")
      return Fail(Sentence(ShownWord(word), " stands where \"lockstep-timeline\" must"), "give a timeline");
    return Version(words);
  }
  if (ended_) return Fail("text stands behind \"end\"", "one file holds one job");
  const bool good = word.size() == 1 ? Row(word.front(), words) : Statement(word, words);
  if (!good) return false;
  return words.AtEnd() || Fail(Sentence(ShownWord(words.Next()), " is more than the line has room for"),
                               "see docs/formats/timeline.md");
}

bool TimelineParser::Version(LineWords& words) {
  int version = 0;
  const std::string_view word = words.Next();
  if (!NumberFromWord(word, version))
    return Fail(Sentence(ShownWord(word), " is no version"), "the first line is \"lockstep-timeline 1\"");
  if (version != kTimelineVersion) {
    return Fail(Sentence("the timeline is of version ", version, ", this program reads ", kTimelineVersion),
                "write that one, or use a newer lockstep");
  }
  versioned_ = true;
  return words.AtEnd() ||
         Fail(Sentence(ShownWord(words.Next()), " stands behind the version"), "give it a line of its own");
}

bool TimelineParser::Statement(std::string_view word, LineWords& words) {
  if (word == "rank") return Rank(words);
  if (word == "base") return Integer(words, "base", base_);
  if (word == "name") return Name(words);
  if (word == "group") return GroupStatement(words);
  if (word == "host") return HostStatement(words);
  if (word == "exchange") return Exchange(words);
  if (word == "job") return Text(words, "job", capture_.job);
  if (word == "world") return World(words);
  if (word == "note") return Text(words, "note", capture_.notes.emplace_back());
  if (word == "end") return ended_ = true;
  return Fail(Sentence(ShownWord(word), " is no statement"), "see docs/formats/timeline.md");
}

bool TimelineParser::Text(LineWords& words, std::string_view what, std::string& out) {
  const std::string_view word = words.Next();
  auto text = TextFromWord(word);
  if (!text || text->empty())
    return Fail(Sentence(ShownWord(word), " is no text for ", what), "write one word, with %20 for a space");
  out = std::move(*text);
  return true;
}

bool TimelineParser::World(LineWords& words) {
  if (!Integer(words, "world", capture_.world_size)) return false;
  if (capture_.world_size >= 1 && capture_.world_size <= kLargestRank + 1) return true;
  return Fail(Sentence("a world of ", capture_.world_size, " ranks is impossible"),
              "write the number of ranks of the job");
}

bool TimelineParser::HostStatement(LineWords& words) {
  store::Host host;
  if (!Text(words, "a host", host.id)) return false;
  host.name = host.id;
  if (!words.AtEnd() && !Text(words, "a host's name", host.name)) return false;
  if (!host_ids_.insert(host.id).second)
    return Fail(Sentence("host ", ShownWord(host.id), " stands here twice"),
                "ranks of one host share its line");
  capture_.hosts.push_back(std::move(host));
  return true;
}

bool TimelineParser::Exchange(LineWords& words) {
  uint32_t host = 0;
  int64_t stamps[5] = {};
  if (!Integer(words, "a host's number", host)) return false;
  if (host >= capture_.hosts.size())
    return Fail(Sentence("host ", host, " is not known yet"), "declare it above");
  for (int64_t& stamp : stamps) {
    if (!Integer(words, "a stamp", stamp)) return false;
  }
  capture_.hosts[host].exchanges.push_back({.t1 = HostTime(stamps[0]),
                                            .t2 = JobTime(stamps[1]),
                                            .t3 = JobTime(stamps[2]),
                                            .t4 = HostTime(stamps[3]),
                                            .monotonic = MonoTime(stamps[4])});
  return true;
}

bool TimelineParser::GroupStatement(LineWords& words) {
  store::Group group;
  if (!Text(words, "a group's key", group.key) || !Text(words, "a group's name", group.name)) return false;
  if (!Members(words.Next(), group.members)) return false;
  group.size = static_cast<int32_t>(group.members.size());
  if (!words.AtEnd()) {
    const std::string_view size = words.Next();
    if (!size.starts_with("size=")) return UnknownField(size);
    if (!Value("size", size.substr(5), group.size)) return false;
    if (group.size < 0 || group.size > kLargestRank + 1 ||
        (!group.members.empty() && group.size != static_cast<int32_t>(group.members.size())))
      return Fail(Sentence("a group of size ", group.size, " has ", group.members.size(), " members"),
                  "leave the size out");
  }
  if (!group_keys_.insert(group.key).second)
    return Fail(Sentence("group ", ShownWord(group.key), " stands here twice"),
                "give each communicator its own key");
  capture_.groups.push_back(std::move(group));
  return true;
}

// "0-3,8" by rank in the group, or "-" where nobody knows.
bool TimelineParser::Members(std::string_view word, std::vector<RankId>& out) {
  if (word == "-") return true;
  const auto bad = [&](std::string_view part) {
    return Fail(Sentence(ShownWord(part), " names no ranks"),
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
      return Fail("the groups have more members than any job", "the file is damaged: write it again");
    for (int32_t r = first; r <= last; ++r) out.push_back(RankId(r));
    if (comma != std::string_view::npos && rest.empty()) return bad(word);
  } while (!rest.empty());
  std::vector<RankId> sorted = out;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return true;
  return Fail(Sentence("rank ", twice->value(), " is in the group twice"),
              "list each member once, by its rank in the group");
}

bool TimelineParser::Name(LineWords& words) {
  std::string text;
  if (!Text(words, "a name", text)) return false;
  names_.push_back(capture_.strings.Intern(text));
  return true;
}

bool TimelineParser::Rank(LineWords& words) {
  int32_t number = 0;
  if (!Integer(words, "a rank", number)) return false;
  if (number < 0 || number > kLargestRank)
    return Fail(Sentence("rank ", number, " is impossible"), "ranks count from 0");
  store::RankData told;
  while (!words.AtEnd()) {
    const std::string_view field = words.Next();
    const size_t equals = field.find('=');
    if (equals == std::string_view::npos) return UnknownField(field);
    if (!RankField(field.substr(0, equals), field.substr(equals + 1), told)) return false;
  }
  if (!EnterRank(RankId(number), told.device, told.incarnation)) return false;
  store::RankData& entry = rank();
  const bool first = entry.host == store::kNone;
  if (!first && told.host != store::kNone && told.host != entry.host)
    return Fail(Sentence("rank ", number, " was on another host above"), "one rank has one host");
  if (first && told.host == store::kNone)
    return Fail(Sentence("rank ", number, " has no host"), "write host= with the host's number");
  if (first) {
    entry.host = told.host;
    entry.pid = told.pid;
    entry.program = std::move(told.program);
    entry.properties = std::move(told.properties);
    entry.has_properties = !entry.properties.name.empty() || entry.properties.sms != 0;
  }
  return true;
}

bool TimelineParser::RankField(std::string_view key, std::string_view value, store::RankData& rank) {
  const auto text = [&](std::string& out) {
    auto decoded = TextFromWord(value);
    if (!decoded)
      return Fail(Sentence(ShownWord(value), " is no text for ", key),
                  "write one word, with %20 for a space");
    out = std::move(*decoded);
    return true;
  };
  if (key == "host") {
    if (!Value(key, value, rank.host)) return false;
    return rank.host < capture_.hosts.size() ||
           Fail(Sentence("host ", rank.host, " is not known yet"), "declare it above");
  }
  uint32_t number = 0;
  if (key == "device") {
    if (!Value(key, value, number)) return false;
    rank.device = DeviceId(number);
    return true;
  }
  if (key == "pid") return Value(key, value, rank.pid);
  if (key == "incarnation") return Value(key, value, rank.incarnation);
  if (key == "program") return text(rank.program);
  if (key == "gpu") return text(rank.properties.name);
  if (key == "sms") return Value(key, value, rank.properties.sms);
  if (key == "compute") {
    const size_t dot = value.find('.');
    return Value(key, value.substr(0, dot), rank.properties.compute_major) &&
           (dot == std::string_view::npos ||
            Value(key, value.substr(dot + 1), rank.properties.compute_minor));
  }
  return UnknownField(key);
}

bool TimelineParser::EnterRank(RankId id, DeviceId device, uint32_t incarnation) {
  const auto [it, fresh] = ranks_.try_emplace({id, {device, incarnation}}, capture_.ranks.size());
  rank_ = it->second;
  if (!fresh) return true;
  store::RankData& entry = capture_.ranks.emplace_back();
  entry.rank = id;
  entry.device = device;
  entry.incarnation = incarnation;
  entry.rank_source = "timeline";
  entry.window = {HostTime::Max(), HostTime::Min()};
  return true;
}

bool TimelineParser::UnknownField(std::string_view key) {
  return Fail(Sentence(ShownWord(key), " is no field of this line"), "see docs/formats/timeline.md");
}

bool TimelineParser::NameAt(std::string_view word, NameId& out) {
  uint32_t number = 0;
  if (!NumberFromWord(word, number))
    return Fail(Sentence(ShownWord(word), " is no number of a name"),
                "names count from 0 in the order of their lines");
  if (number >= names_.size())
    return Fail(Sentence("name ", number, " is not known yet"), "declare it above");
  out = names_[number];
  return true;
}

void TimelineParser::Cover(HostTime start, HostTime end) {
  HostInterval& window = rank().window;
  window.start = std::min(window.start, start);
  window.end = std::max(window.end, end);
}

store::Capture TimelineParser::Take() {
  for (store::RankData& entry : capture_.ranks) {
    if (entry.window.end < entry.window.start) entry.window = {};
    NestRanges(entry.ranges);
  }
  return std::move(capture_);
}

}  // namespace lockstep::trace
