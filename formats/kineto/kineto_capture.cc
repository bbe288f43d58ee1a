#include "formats/kineto/kineto_capture.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "formats/common/assign_api_calls.h"
#include "formats/common/nest_ranges.h"
#include "formats/kineto/kineto_messages.h"
#include "formats/kineto/python_stacks.h"
#include "formats/kineto/trace_spans.h"

namespace lockstep::formats {
namespace {

using capture::Capture;
using capture::RankData;

// Returns the reason why a file cannot be analysed, as the end of a sentence that begins with its name.
// Empty: the file can be analysed.
std::string UnusableReason(const KinetoFile& file) {
  const std::string cut = file.broken_off.empty() ? "" : absl::StrCat(": ", file.broken_off);
  if (!file.is_json)
    return absl::StrCat(" is not JSON", cut, "; give a trace that PyTorch's profiler or Lockstep wrote");
  if (!file.has_events) {
    if (!cut.empty()) return absl::StrCat(" is damaged before its first row", cut, "; copy it again");
    return " is JSON but not a trace: it has no \"traceEvents\"";
  }
  if (file.devices.empty()) {
    if (!cut.empty())
      return absl::StrCat(" has no device activity before it ends early", cut, "; copy it again");
    if (file.damage.count() != 0)
      return absl::StrCat(" holds no device activity that can be read; ", file.damage.Describe());
    if (file.counters.ranges != 0) {
      return absl::StrCat(" holds no device activity but ", file.counters.Describe(),
                          "; the profiler records one or the other: record it without counters");
    }
    return " holds no device activity; record it with ProfilerActivity.CUDA";
  }
  return "";
}

// Leaves out unusable files of a folder, such as a report, with a note. An unusable file is an error if the
// user named it or if it is the only one.
absl::Status DropUnusable(std::vector<ReadFile>& files, Capture& capture) {
  std::vector<ReadFile> usable;
  std::string first_reason;
  const bool only = files.size() == 1;
  for (ReadFile& file : files) {
    const std::string why = UnusableReason(file.content);
    if (why.empty()) {
      usable.push_back(std::move(file));
      continue;
    }
    std::string sentence = absl::StrCat(file.from.path, why);
    if (file.from.named || only) return absl::InvalidArgumentError(sentence);
    if (first_reason.empty()) first_reason = sentence;
    capture.notes.push_back(absl::StrCat(sentence, " (left out)"));
  }
  if (usable.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("none of the ", files.size(), " files can be used; the first: ", first_reason));
  }
  // A truncated trace beside whole ones would look like a rank that did less work.
  const auto whole = [](const ReadFile& f) { return f.content.broken_off.empty(); };
  if (std::any_of(usable.begin(), usable.end(), whole)) {
    for (const ReadFile& file : usable) {
      if (whole(file)) continue;
      capture.notes.push_back(absl::StrCat(file.from.path, " is damaged (", file.content.broken_off,
                                           ") and left out; give it alone to read it up to the damage"));
    }
    std::erase_if(usable, [&whole](const ReadFile& f) { return !whole(f); });
  }
  files = std::move(usable);
  return absl::OkStatus();
}

struct Named {
  RankId rank;
  std::string source;
};

// A worker without a number gets its place in the list of workers.
std::vector<Named> NameRanks(const std::vector<ReadFile>& files) {
  std::vector<Named> names;
  absl::flat_hash_map<std::string, int32_t> places;
  for (const ReadFile& file : files) {
    const int32_t place =
        places.try_emplace(WorkerOf(file), static_cast<int32_t>(places.size())).first->second;
    if (file.content.rank) {
      names.push_back({*file.content.rank, "distributedInfo"});
    } else if (const auto rank = RankOf(file.from)) {
      names.push_back({*rank, "file name"});
    } else {
      names.push_back({RankId(place), "position"});
    }
  }
  return names;
}

std::string_view FolderOf(const ReadFile& file) {
  const std::string_view path(file.from.path);
  return path.substr(0, path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/'));
}

HostInterval RowsOf(const KinetoFile& file);

// The files of a rank, in order of the list.
using FilesOfRanks = std::map<RankId, std::vector<size_t>>;

absl::Status CheckTimesDiffer(const std::vector<ReadFile>& files, const std::vector<Named>& names,
                              const FilesOfRanks& of_rank) {
  for (const auto& [rank, places] : of_rank) {
    for (size_t b = 1; b < places.size(); ++b) {
      for (size_t a = 0; a < b; ++a) {
        const ReadFile& first = files[places[a]];
        const ReadFile& second = files[places[b]];
        const bool one_worker = WorkerOf(first) == WorkerOf(second);
        if (one_worker && !AtSameTime(RowsOf(first.content), RowsOf(second.content))) continue;
        const std::string states =
            names[places[b]].source == "distributedInfo" ? "both state" : "would both be";
        const std::string remedy = FolderOf(first) == FolderOf(second)
                                       ? "give one file per rank"
                                       : "if these are two jobs, give the folder of one";
        return absl::InvalidArgumentError(absl::StrCat(first.from.path, " and ", second.from.path, " ",
                                                       states, " rank ", rank.value(),
                                                       one_worker ? " at the same time; " : "; ", remedy));
      }
    }
  }
  return absl::OkStatus();
}

// Runs of different processes in different folders are not spans of one job, unless the user chose one.
absl::Status CheckOneJob(const std::vector<ReadFile>& files, const FilesOfRanks& of_rank, size_t spans) {
  for (const auto& [rank, places] : of_rank) {
    const ReadFile& first = files[places.front()];
    for (const size_t place : places) {
      const ReadFile& other = files[place];
      if (first.content.pid == 0 || other.content.pid == 0 || first.content.pid == other.content.pid)
        continue;
      if (FolderOf(first) == FolderOf(other)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(first.from.path, " and ", other.from.path, " are of two jobs: both are rank ",
                       rank.value(), ", of processes ", first.content.pid, " and ", other.content.pid,
                       "; give the folder of one job, or choose a span with --span 1..", spans));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWorlds(const std::vector<ReadFile>& files) {
  const ReadFile* known = nullptr;
  for (const ReadFile& file : files) {
    if (file.content.world_size == 0) continue;
    if (known == nullptr) known = &file;
    if (known->content.world_size == file.content.world_size) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        known->from.path, " is of a job with ", known->content.world_size, " ranks and ", file.from.path,
        " of one with ", file.content.world_size, "; give the traces of one job"));
  }
  return absl::OkStatus();
}

template <typename T>
std::vector<T> Chosen(std::vector<T> all, const std::vector<size_t>& places) {
  std::vector<T> chosen;
  for (const size_t place : places) chosen.push_back(std::move(all[place]));
  return chosen;
}

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

// Leaves the files of one span in `files` and `names`.
absl::Status KeepOneSpan(std::vector<ReadFile>& files, std::vector<Named>& names, const JoinOptions& options,
                         Capture& capture) {
  FilesOfRanks of_rank;
  for (size_t i = 0; i < files.size(); ++i) of_rank[names[i].rank].push_back(i);
  if (of_rank.size() == files.size()) return CheckOnlySpan(options.span);
  if (absl::Status s = CheckTimesDiffer(files, names, of_rank); !s.ok()) return s;
  std::vector<SpanFile> span_files;
  for (size_t i = 0; i < files.size(); ++i) span_files.push_back({names[i].rank, RowsOf(files[i].content)});
  const auto spans = DivideIntoSpans(span_files);
  auto chosen = ChooseSpan(span_files, spans, options.span);
  if (!chosen.ok()) return chosen.status();
  if (options.span.kind != SpanChoice::Kind::kNumber) {
    if (absl::Status s = CheckOneJob(files, of_rank, spans.size()); !s.ok()) return s;
  }
  if (options.chose_span) options.chose_span(chosen->note);
  capture.notes.push_back(std::move(chosen->note));
  files = Chosen(std::move(files), spans[chosen->span]);
  names = Chosen(std::move(names), spans[chosen->span]);
  return MakeWhole(files, options);
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
  // The sum of base and stamp may overflow in a damaged file. The stamp then stays unchanged.
  HostTime Shift(HostTime t) const { return ShiftBy(base_, t); }
  static HostTime ShiftBy(Nanos base, HostTime t) {
    int64_t sum = 0;
    return __builtin_add_overflow(t.ns(), base.ns(), &sum) ? t : HostTime(sum);
  }

 private:
  Nanos base_;
  std::vector<NameId> names_;
};

HostInterval RowsOf(const KinetoFile& file) {
  return {Rebase::ShiftBy(file.base, file.window.start), Rebase::ShiftBy(file.base, file.window.end)};
}

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
void AddRanks(ReadFile read, const Named& name, uint32_t host, const std::vector<uint32_t>& groups,
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

void NoteInference(const std::vector<Named>& names, Capture& capture) {
  const auto by_place =
      std::count_if(names.begin(), names.end(), [](const Named& n) { return n.source == "position"; });
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
                        Capture& capture) {
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
    for (size_t r = first; r < capture.ranks.size(); ++r) TakeIdentity(known, capture.ranks[r]);
  }
  if (mixed && capture.ranks.size() > recorded) ForgetGroups(capture);
}

absl::StatusOr<Capture> JoinKinetoFiles(std::vector<ReadFile> files, const JoinOptions& options) {
  Capture capture;
  if (absl::Status status = DropUnusable(files, capture); !status.ok()) return status;
  std::vector<Named> names = NameRanks(files);
  if (absl::Status status = KeepOneSpan(files, names, options, capture); !status.ok()) return status;
  if (absl::Status status = CheckWorlds(files); !status.ok()) return status;
  NoteInference(names, capture);
  NoteCounters(files, capture);
  Hosts hosts(capture);
  Groups groups(capture);
  for (size_t i = 0; i < files.size(); ++i) {
    capture.world_size = std::max(capture.world_size, files[i].content.world_size);
    const uint32_t host = hosts.Of(files[i], names[i].rank);
    const std::vector<uint32_t> places = groups.Add(files[i].content.groups);
    AddRanks(std::move(files[i]), names[i], host, places, capture);
  }
  return capture;
}

}  // namespace lockstep::formats
