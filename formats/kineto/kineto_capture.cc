#include "formats/kineto/kineto_capture.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "formats/common/assign_api_calls.h"
#include "formats/common/nest_ranges.h"
#include "formats/files/job_files.h"
#include "formats/files/trace_files.h"
#include "formats/kineto/kineto_messages.h"
#include "formats/kineto/python_stacks.h"

namespace lockstep::formats {
namespace {

using capture::Capture;
using capture::RankData;

// Reads the rows of files that have lost them.
absl::Status MakeWhole(std::vector<ReadFile>& files, const JoinOptions& options) {
  std::vector<TraceFile> thin;
  for (const ReadFile& file : files) {
    if (file.thin) thin.push_back(file.from);
  }
  if (thin.empty()) return absl::OkStatus();
  auto read = options.read_again(thin);
  if (!read.ok()) return read.status();
  auto next = read->begin();
  for (ReadFile& file : files) {
    if (file.thin) file = std::move(*next++);
  }
  return absl::OkStatus();
}

std::vector<JobFile> FactsOfAll(const std::vector<ReadFile>& files) {
  std::vector<JobFile> facts;
  for (const ReadFile& file : files) facts.push_back(FactsOf(file));
  return facts;
}

// Leaves the files of one job and one span in `files`, with all their rows. Returns the rank of each.
absl::StatusOr<std::vector<FileRank>> KeepChosen(std::vector<ReadFile>& files, const JoinOptions& options,
                                                 Capture& capture) {
  auto chosen = ChooseFiles(FactsOfAll(files), options.span);
  if (!chosen.ok()) return chosen.status();
  if (options.chose_span && !chosen->span_note.empty()) options.chose_span(chosen->span_note);
  capture.notes = std::move(chosen->notes);
  std::vector<ReadFile> kept;
  for (const size_t place : chosen->places) kept.push_back(std::move(files[place]));
  files = std::move(kept);
  if (absl::Status s = MakeWhole(files, options); !s.ok()) return s;
  if (absl::Status s = CheckWorldSizes(FactsOfAll(files)); !s.ok()) return s;
  return std::move(chosen->ranks);
}

class Hosts {
 public:
  explicit Hosts(Capture& capture) : capture_(capture) {}
  uint32_t Of(const ReadFile& file, RankId rank) {
    std::string name = file.content.host_name;
    if (name.empty()) name = NodeInFileName(file.from.path);
    const std::string id = name.empty() ? absl::StrCat("rank ", rank.value()) : name;
    const auto [it, fresh] = known_.try_emplace(id, static_cast<uint32_t>(capture_.hosts.size()));
    if (fresh) capture_.hosts.push_back({.id = id, .name = std::move(name)});
    return it->second;
  }

 private:
  Capture& capture_;
  absl::flat_hash_map<std::string, uint32_t> known_;
};

class Groups {
 public:
  explicit Groups(Capture& capture) : capture_(capture) {}
  // Returns the places of a file's groups in the capture's table.
  std::vector<uint32_t> Add(const std::vector<capture::Group>& groups) {
    std::vector<uint32_t> places;
    for (const capture::Group& group : groups) {
      const auto [it, fresh] = known_.try_emplace(group.key, static_cast<uint32_t>(capture_.groups.size()));
      if (fresh) capture_.groups.push_back(group);
      places.push_back(it->second);
    }
    return places;
  }

 private:
  Capture& capture_;
  absl::flat_hash_map<std::string, uint32_t> known_;
};

// Moves time stamps to the absolute clock, and names into the capture's table.
class Rebase {
 public:
  Rebase(const KinetoFile& file, capture::StringTable& strings) : base_(file.base) {
    names_.reserve(file.strings.size());
    for (uint32_t i = 0; i < file.strings.size(); ++i)
      names_.push_back(strings.Intern(file.strings.Text(NameId(i))));
  }
  template <typename Row>
  void Times(std::vector<Row>& rows) const {
    if (base_ == Nanos()) return;
    for (Row& row : rows) {
      row.start = Shift(row.start);
      row.end = Shift(row.end);
    }
  }
  template <typename Row>
  void TimesAndNames(std::vector<Row>& rows) const {
    for (Row& row : rows) {
      row.start = Shift(row.start);
      row.end = Shift(row.end);
      row.name = names_[row.name.value()];
    }
  }
  NameId Name(NameId id) const { return names_[id.value()]; }
  HostTime Shift(HostTime t) const { return AddBase(base_, t); }

 private:
  Nanos base_;
  std::vector<NameId> names_;
};

void RebaseDetail(const Rebase& rebase, capture::FrameDetail& detail) {
  for (NameId* name : {&detail.shapes, &detail.types, &detail.stack, &detail.modules})
    *name = rebase.Name(*name);
}

// Null: the file has no frames.
std::shared_ptr<const capture::HostFrames> TakeFrames(capture::HostFrames&& read, const Rebase& rebase,
                                                      capture::StringTable& strings) {
  if (read.frames.empty() && read.allocations.empty()) return nullptr;
  auto taken = std::make_shared<capture::HostFrames>(std::move(read));
  rebase.TimesAndNames(taken->frames);
  for (capture::FrameDetail& detail : taken->details) RebaseDetail(rebase, detail);
  for (capture::AllocationEvent& event : taken->allocations) event.time = rebase.Shift(event.time);
  LinkPythonFrames(*taken, strings);
  std::stable_sort(
      taken->allocations.begin(), taken->allocations.end(),
      [](const capture::AllocationEvent& a, const capture::AllocationEvent& b) { return a.time < b.time; });
  return taken;
}

void DealSyncs(const std::vector<KinetoSync>& syncs, std::span<RankData> entries) {
  for (const KinetoSync& sync : syncs) {
    size_t entry = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].device == sync.device) entry = i;
    }
    entries[entry].syncs.push_back(sync.sync);
    if (sync.record.event != capture::kNone) entries[entry].event_records.push_back(sync.record);
  }
}

// Our writer ends a step a nanosecond early where the next begins, and what ends with it
// (docs/formats/kineto.md). Undoes this.
void CloseSteps(KinetoFile& file) {
  std::set<std::pair<ThreadId, HostTime>> early;
  std::map<ThreadId, capture::HostRange*> before;
  for (capture::HostRange& range : file.ranges) {
    if (!file.strings.Text(range.name).starts_with("ProfilerStep#")) continue;
    capture::HostRange*& last = before[range.thread];
    if (last != nullptr && last->end < range.start && last->end + Nanos(1) == range.start)
      early.insert({last->thread, last->end});
    last = &range;
  }
  const auto close = [&early](auto& rows) {
    for (auto& row : rows) {
      if (row.start < row.end && early.contains({row.thread, row.end})) row.end = row.end + Nanos(1);
    }
  };
  close(file.ranges);
  close(file.api_calls);
}

// The member `lockstep` of our own files replaces the values from the rows.
void ApplyLockstepMember(const KinetoFile& file, const Rebase& rebase, RankData& rank) {
  rank.window = {rebase.Shift(file.own->window.start), rebase.Shift(file.own->window.end)};
  rank.incarnation = file.own->incarnation;
  if (rank.has_properties) rank.properties.uuid = file.own->device_uuid;
}

void AddLosses(const KinetoFile& file, RankData& rank) {
  if (file.damage.count() == 0 && file.broken_off.empty()) return;
  std::string reason = file.damage.Describe();
  if (!file.broken_off.empty()) absl::StrAppend(&reason, reason.empty() ? "" : "; ", file.broken_off);
  rank.losses.push_back({.stage = "import",
                         .kind = "",
                         // A truncated file lost at least the row in which it is cut.
                         .records = std::max<uint64_t>(file.damage.count(), file.broken_off.empty() ? 0 : 1),
                         .reason = std::move(reason),
                         .from = rank.window.start,
                         .to = rank.window.end});
}

// Adds one entry per device of the file.
void AddRanks(ReadFile read, const FileRank& name, uint32_t host, const std::vector<uint32_t>& groups,
              Capture& capture) {
  KinetoFile& file = read.content;
  AttachAnnounced(file);
  if (!file.broken_off.empty())
    capture.incomplete.push_back({.rank = name.rank,
                                  .reason = "its trace is damaged: " + file.broken_off,
                                  .asked = {},
                                  .recorded = {}});
  const Rebase rebase(file, capture.strings);
  const size_t first = capture.ranks.size();
  for (KinetoDevice& device : file.devices) {
    RankData& rank = capture.ranks.emplace_back();
    rank.rank = name.rank;
    rank.rank_source = name.source;
    rank.host = host;
    rank.device = device.device;
    rank.pid = file.pid;
    rank.source_file = read.from.path;
    rank.window = {rebase.Shift(file.window.start), rebase.Shift(file.window.end)};
    if (const auto it = file.properties.find(device.device.value()); it != file.properties.end()) {
      rank.properties = it->second;
      rank.has_properties = true;
    }
    if (file.own) ApplyLockstepMember(file, rebase, rank);
    rank.activities = std::move(device.activities);
    rank.kernel_details = std::move(device.kernel_details);
    rank.copy_details = std::move(device.copy_details);
    rank.collectives = std::move(device.collectives);
    rebase.TimesAndNames(rank.activities);
    for (capture::Collective& c : rank.collectives) {
      if (c.group != capture::kNone) c.group = groups[c.group];
      c.datatype = rebase.Name(c.datatype);
    }
  }
  const std::span<RankData> entries(capture.ranks.data() + first, capture.ranks.size() - first);
  if (file.own) CloseSteps(file);
  rebase.TimesAndNames(file.api_calls);
  rebase.TimesAndNames(file.ranges);
  NestRanges(file.ranges);
  AssignApiCallsToDevices(std::move(file.api_calls), entries);
  DealSyncs(file.syncs, entries);
  for (RankData& entry : entries) rebase.Times(entry.syncs);
  if (const std::string gaps = DescribeClosedGaps(file.operators, file.data_loader); !gaps.empty())
    capture.notes.push_back(absl::StrCat(read.from.path, gaps));
  capture::HostUnions unions{file.operators.Take(), file.data_loader.Take()};
  rebase.Times(unions.operators);
  rebase.Times(unions.data_loader);
  const std::shared_ptr<const capture::HostFrames> frames =
      TakeFrames(std::move(file.frames), rebase, capture.strings);
  for (RankData& entry : entries) entry.frames = frames;
  for (RankData& entry : entries.subspan(1)) {
    entry.ranges = file.ranges;
    entry.unions = unions;
  }
  entries[0].ranges = std::move(file.ranges);
  entries[0].unions = std::move(unions);
  if (file.own) {
    for (capture::Loss& loss : file.own->losses) {
      loss.from = entries[0].window.start;
      loss.to = entries[0].window.end;
      entries[0].losses.push_back(std::move(loss));
    }
  }
  AddLosses(file, entries[0]);
}

void NoteInference(const std::vector<FileRank>& names, Capture& capture) {
  const auto by_place =
      std::count_if(names.begin(), names.end(), [](const FileRank& n) { return n.source == "position"; });
  if (by_place != 0) {
    capture.notes.push_back(absl::StrCat(
        by_place, " of ", names.size(),
        " files are numbered by their position in the sorted list: neither the trace nor its name "
        "gives the rank"));
  }
}

// Some ranks may know a communicator by NCCL's id and others by PyTorch's name. One communicator would then
// count as two. Without groups, inference finds all communicators from the ranks that meet.
void ForgetGroups(Capture& capture) {
  capture.groups.clear();
  for (RankData& rank : capture.ranks) {
    for (capture::Collective& c : rank.collectives) {
      c.group = capture::kNone;
      c.sequence = c.root = c.peer = -1;
      c.source = capture::MatchSource::kOrder;
    }
  }
  capture.notes.push_back(
      "some ranks were captured through CUPTI and some by PyTorch's profiler: their collectives are matched "
      "by order");
}

void NoteCounters(const std::vector<ReadFile>& files, Capture& capture) {
  KinetoCounters all;
  for (const ReadFile& file : files) {
    all.ranges += file.content.counters.ranges;
    all.metrics.insert(file.content.counters.metrics.begin(), file.content.counters.metrics.end());
  }
  if (all.ranges != 0) capture.notes.push_back(absl::StrCat(all.Describe(), " are not analysed"));
}

// Examines activities and not collectives, because communication kernels get their collectives only in
// Finish().
bool HasWork(const Capture& capture) {
  return std::any_of(capture.ranks.begin(), capture.ranks.end(),
                     [](const RankData& r) { return !r.activities.empty(); });
}

// The capture's data about the process replaces the file's data about itself. The times stay the file's.
void TakeIdentity(const RankData& known, RankData& entry) {
  entry.pid = known.pid;
  entry.incarnation = known.incarnation;
  entry.program = known.program;
  entry.losses.insert(entry.losses.end(), known.losses.begin(), known.losses.end());
}

// Empty: the file can be used.
std::string WhyNoRows(const capture::RecordedTrace& trace, const KinetoFile& file) {
  if (!trace.path.empty()) return UnusableReason(file);
  return trace.text.empty() ? " left no trace" : absl::StrCat(" left no trace: ", trace.text);
}

// Profilers that start at a count of iterations may start at different counts, because each one receives the
// request at its own time. The reference is the trace whose rows overlap those of most traces of its host. A
// trace is a stray if its rows do not overlap the reference's. If all traces were given one window, none is a
// stray.
std::vector<bool> FindStrays(const std::vector<capture::RecordedTrace>& traces,
                             const std::vector<ReadFile>& files) {
  const auto usable = [&](size_t i) { return WhyNoRows(traces[i], files[i].content).empty(); };
  const auto rows = [&](size_t i) { return RowsOf(files[i].content); };
  const auto meet = [&](size_t a, size_t b) {
    return rows(a).start <= rows(b).end && rows(b).start <= rows(a).end;
  };
  std::map<uint32_t, std::vector<size_t>> of_host;
  for (size_t i = 0; i < traces.size(); ++i) {
    if (usable(i)) of_host[traces[i].rank.host].push_back(i);
  }
  std::vector<bool> strays(traces.size());
  for (const auto& [host, members] : of_host) {
    const HostInterval& given = traces[members[0]].rank.window;
    const bool one_window = std::all_of(members.begin(), members.end(), [&, &all = traces](size_t i) {
      return all[i].rank.window.start == given.start && all[i].rank.window.end == given.end;
    });
    if (one_window) continue;
    const auto met = [&, &of = members](size_t i) {
      return std::count_if(of.begin(), of.end(), [&](size_t j) { return meet(i, j); });
    };
    const size_t reference = *std::max_element(members.begin(), members.end(),
                                               [&](size_t a, size_t b) { return met(a) < met(b); });
    for (const size_t i : members) strays[i] = !meet(i, reference);
  }
  return strays;
}

}  // namespace

void JoinRecordedTraces(std::vector<capture::RecordedTrace> traces, std::vector<ReadFile> files,
                        capture::RowOverflow* overflow, Capture& capture) {
  const bool mixed = HasWork(capture);
  // A truncated trace beside whole ones would look like a rank that did less work.
  const bool whole = !capture.ranks.empty() || std::any_of(files.begin(), files.end(), [](const ReadFile& f) {
    return f.content.has_events && f.content.broken_off.empty();
  });
  const size_t recorded = capture.ranks.size();
  const std::vector<bool> strays = FindStrays(traces, files);
  Groups groups(capture);
  for (size_t i = 0; i < traces.size(); ++i) {
    const RankData& known = traces[i].rank;
    KinetoFile& content = files[i].content;
    std::string why = WhyNoRows(traces[i], content);
    if (why.empty() && whole && !content.broken_off.empty()) {
      why = absl::StrCat(" is damaged (", content.broken_off,
                         ") and left out; give it alone to read it up to the damage");
    }
    if (why.empty() && strays[i]) {
      why =
          " has other steps than most ranks and is left out: its request crossed a multiple of 100 "
          "iterations; "
          "capture again, or use --duration";
    }
    if (!why.empty()) {
      capture.notes.push_back(
          absl::StrCat("rank ", known.rank.value(), ", captured by PyTorch's profiler,",
                       traces[i].path.empty() ? "" : absl::StrCat(" is missing: ", traces[i].path), why));
      capture.missing_ranks.push_back(known.rank);
      continue;
    }
    if (content.rank && *content.rank != known.rank) {
      capture.notes.push_back(absl::StrCat("rank ", known.rank.value(), " (by ", known.rank_source,
                                           ") states rank ", content.rank->value(),
                                           " in its trace; the former is used"));
    }
    const size_t first = capture.ranks.size();
    const std::vector<uint32_t> places = groups.Add(content.groups);
    AddRanks(std::move(files[i]), {known.rank, known.rank_source}, known.host, places, capture);
    for (size_t r = first; r < capture.ranks.size(); ++r) {
      TakeIdentity(known, capture.ranks[r]);
      if (overflow != nullptr) overflow->Move(capture.ranks[r]);
    }
  }
  if (mixed && capture.ranks.size() > recorded) ForgetGroups(capture);
}

absl::StatusOr<Capture> JoinKinetoFiles(std::vector<ReadFile> files, const JoinOptions& options) {
  Capture capture;
  auto ranks = KeepChosen(files, options, capture);
  if (!ranks.ok()) return ranks.status();
  NoteInference(*ranks, capture);
  NoteCounters(files, capture);
  Hosts hosts(capture);
  Groups groups(capture);
  for (size_t i = 0; i < files.size(); ++i) {
    capture.world_size = std::max(capture.world_size, files[i].content.world_size);
    const uint32_t host = hosts.Of(files[i], (*ranks)[i].rank);
    const std::vector<uint32_t> places = groups.Add(files[i].content.groups);
    const size_t first = capture.ranks.size();
    AddRanks(std::move(files[i]), (*ranks)[i], host, places, capture);
    for (size_t r = first; r < capture.ranks.size() && options.overflow != nullptr; ++r)
      options.overflow->Move(capture.ranks[r]);
  }
  return capture;
}

}  // namespace lockstep::formats
