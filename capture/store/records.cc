#include "capture/store/records.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files/read_files.h"
#include "capture/model/compact.h"
#include "capture/model/held_bytes.h"
#include "capture/store/completeness.h"
#include "capture/store/records_blocks.h"
#include "capture/store/records_join.h"
#include "capture/store/records_manifest.h"
#include "capture/store/records_process.h"
#include "capture/store/records_timings.h"
#include "capture/store/unrecorded_graphs.h"
#include "wire/columns/columns.h"

namespace lockstep::capture {
namespace {

namespace fs = std::filesystem;
using columns::Kind;

// The name of ranges whose begin, and so their name, came before the client was ready.
constexpr std::string_view kBegunUnseen = "(began before the capture)";

absl::StatusOr<std::string> ReadFile(const fs::path& path) {
  const InputFile file = OpenInputFile(path);
  const std::string sentence = absl::StrCat(path.string(), " ", file.why);
  if (!file.fd.ok())
    return file.error == ENOENT ? absl::NotFoundError(sentence) : absl::InvalidArgumentError(sentence);
  std::optional<std::string> bytes = RestOf(file);
  if (!bytes)
    return absl::InvalidArgumentError(absl::StrCat(sentence, "cannot be read: ", std::strerror(errno)));
  return *std::move(bytes);
}

class Loader {
 public:
  Loader(fs::path folder, const LoadProgress& progress, RowOverflow* overflow)
      : folder_(std::move(folder)), progress_(progress), overflow_(overflow) {}

  absl::StatusOr<Recorded> Load() {
    if (absl::Status s = ReadManifest(); !s.ok()) return s;
    FindFiles();
    if (!HasManifest() && manifest_.processes.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(folder_.string(),
                                                     " holds no Lockstep records: there is neither a ",
                                                     kManifestName, " nor a *.lsr file"));
    }
    DescribeCapture();
    if (progress_) MeasureFiles();
    tables_.resize(manifest_.processes.size());
    for (size_t p = 0; p < tables_.size(); ++p) {
      ReadProcess(p);
      Count(tables_[p].data);
      MoveRows(tables_[p].data);
    }
    FindIncomplete();
    Join();
    std::vector<RecordedTrace> traces;
    for (size_t p = 0; p < tables_.size(); ++p) {
      if (manifest_.processes[p].via == "kineto") {
        traces.push_back(TraceOf(p));
      } else {
        AddRanks(p);
      }
    }
    return Recorded{std::move(capture_), std::move(traces)};
  }

 private:
  bool HasManifest() const { return manifest_state_ != ManifestState::kNone; }
  void Note(std::string text) { capture_.notes.push_back(std::move(text)); }

  void NoteManifest(const std::string& name, const absl::Status& why) {
    Note(absl::StrCat((folder_ / name).string(), " cannot be used (", why.message(),
                      "): ranks are numbered from the file names, and hosts and losses are not known"));
  }

  absl::Status ReadManifest() {
    for (const std::string name : {kManifestName, kOpenManifestName}) {
      auto text = ReadFile(folder_ / name);
      if (!text.ok()) {
        if (!absl::IsNotFound(text.status())) NoteManifest(name, text.status());
        continue;
      }
      auto manifest = ParseManifest(*text);
      if (!manifest.ok()) {
        NoteManifest(name, manifest.status());
        continue;
      }
      manifest_ = *std::move(manifest);
      manifest_state_ = name == kManifestName ? ManifestState::kFinal : ManifestState::kOpen;
      return absl::OkStatus();
    }
    std::error_code error;
    if (!fs::is_directory(folder_, error)) {
      return absl::NotFoundError(
          absl::StrCat(folder_.string(), " is not a folder; give a folder that `lockstep trace` wrote"));
    }
    return absl::OkStatus();
  }

  // Files that the manifest does not list are found by their names, because the manifest may be missing or
  // older.
  void FindFiles() {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : FolderEntries(folder_))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    std::map<uint32_t, size_t>
        made;  // process number in a name → index into manifest_.processes, without a manifest entry
    for (const std::string& name : names) {
      if (!HasManifest()) FindTrace(name);
      const std::optional<RecordsFile> file = ParseRecordsFileName(name);
      if (!file.has_value() || Listed(name)) continue;
      size_t place = file->process;
      if (place >= manifest_.processes.size() || !HasManifest()) {
        place = made.try_emplace(file->process, manifest_.processes.size()).first->second;
        if (place == manifest_.processes.size()) {
          manifest_.processes.emplace_back();
          manifest_.processes.back().rank = file->rank;
          manifest_.processes.back().rank_source = "the name of the records file";
        }
      }
      ManifestFile entry;
      entry.name = name;
      manifest_.processes[place].files.push_back(std::move(entry));
    }
    if (!HasManifest() && !manifest_.processes.empty() && capture_.notes.empty()) {
      Note(
          "this capture has no manifest: ranks are numbered from the file names, and hosts and losses are "
          "not known");
    }
  }

  void MeasureFiles() {
    for (const ManifestProcess& process : manifest_.processes) {
      for (const ManifestFile& file : process.files) {
        std::error_code error;
        const auto size = fs::file_size(folder_ / file.name, error);
        if (!error) total_bytes_ += size;
      }
    }
  }

  void Advance(uint64_t bytes) {
    done_bytes_ += bytes;
    if (progress_) progress_(done_bytes_, total_bytes_);
  }

  // Adds a trace file of a capture without a manifest.
  void FindTrace(const std::string& name) {
    const std::optional<TraceFileOwner> owner = ParseTraceFileName(name);
    if (!owner.has_value() || owner->kind != TraceFileKind::kKineto) return;
    ManifestProcess& process = manifest_.processes.emplace_back();
    process.rank = owner->rank;
    process.rank_source = "the name of the trace file";
    process.via = "kineto";
    process.trace.name = name;
  }

  bool Listed(const std::string& name) const {
    for (const ManifestProcess& p : manifest_.processes) {
      for (const ManifestFile& f : p.files) {
        if (f.name == name) return true;
      }
    }
    return false;
  }

  void DescribeCapture() {
    capture_.id = manifest_.id;
    capture_.job = manifest_.job;
    capture_.live = true;
    capture_.world_size = manifest_.world_size;
    capture_.missing_ranks = manifest_.missing_ranks;
    capture_.wanted_steps = manifest_.wanted_steps;
    capture_.hosts = manifest_.hosts;
    capture_.notes.insert(capture_.notes.end(), manifest_.notes.begin(), manifest_.notes.end());
  }

  void ReadProcess(size_t p) {
    ProcessTables& tables = tables_[p];
    const ManifestProcess& process = manifest_.processes[p];
    RankData& data = tables.data;
    data.rank = process.rank;
    data.host = process.host;
    data.pid = process.pid;
    data.incarnation = process.incarnation;
    data.program = process.program;
    data.rank_source = process.rank_source;
    data.window = process.window;
    data.losses = process.losses;
    for (const ManifestFile& file : process.files) ReadRecordsFile(file, tables);
    for (size_t kind = 0; kind < tables.refused.size(); ++kind) {
      if (tables.refused[kind] == 0) continue;
      AddLoss(data, static_cast<Kind>(kind), tables.refused[kind], "impossible time stamps");
    }
    data.unseen_graph_launches = UnrecordedGraphLaunches(data);
    if (data.unseen_graph_launches > 0) {
      data.losses.push_back({"cupti", columns::KindName(Kind::kKernel), data.unseen_graph_launches,
                             "launches of CUDA graphs without a record of their kernels: the graphs were "
                             "made before CUPTI was set up; start "
                             "the job with LOCKSTEP_PREPARE=always",
                             data.window.start, data.window.end});
    }
    if (tables.names_lost > 0) {
      Note(absl::StrCat(RankName(data), ": ", tables.names_lost,
                        " records have no name because its definition was lost"));
    }
    if (tables.begun_unseen > 0) {
      Note(absl::StrCat(RankName(data), ": ", tables.begun_unseen,
                        tables.begun_unseen == 1 ? " range" : " ranges",
                        " began before the capture: name and begin are unknown"));
      const NameId unseen = capture_.strings.Intern(kBegunUnseen);
      for (HostRange& r : data.ranges) {
        if (r.start_unknown && r.name == kNoName) r.name = unseen;
      }
    }
  }

  void ReadRecordsFile(const ManifestFile& file, ProcessTables& tables) {
    const RowCounts before = tables.read;
    std::string damage;
    if (!IsPlainFileName(file.name)) {
      damage = "its manifest names a file outside the folder";
    } else if (auto bytes = ReadFile(folder_ / file.name); !bytes.ok()) {
      damage = std::string(bytes.status().message());
    } else {
      damage = ReadBlocks(*bytes, file.name, tables);
    }
    RowCounts lost = {};
    for (size_t kind = 0; kind < lost.size(); ++kind) {
      const uint64_t got = tables.read[kind] - before[kind];
      if (file.rows[kind] > got && kind != static_cast<size_t>(Kind::kString))
        lost[kind] = file.rows[kind] - got;
    }
    if (damage.empty() && TotalRows(lost) > 0)
      damage = absl::StrCat(file.name, " has fewer rows than its manifest states");
    if (damage.empty()) return;
    tables.damaged = true;
    Note(absl::StrCat(RankName(tables.data), ": ", damage, "; ",
                      TotalRows(lost) > 0 ? absl::StrCat(TotalRows(lost), " records are lost")
                                          : "the number of lost records is unknown",
                      ", the others were read"));
    for (size_t kind = 0; kind < lost.size(); ++kind) {
      if (lost[kind] > 0) AddLoss(tables.data, static_cast<Kind>(kind), lost[kind], damage);
    }
    if (TotalRows(lost) == 0) AddLoss(tables.data, Kind::kString, 0, damage);
  }

  // Returns a description of the file's damage, or an empty text.
  std::string ReadBlocks(std::string_view bytes, const std::string& name, ProcessTables& tables) {
    const BlockWalk walk = WalkBlocks(bytes);
    std::string damage;
    if (!walk.damage.empty()) damage = absl::StrCat(name, " ", walk.damage, " at byte ", walk.end);
    tables.BeginSegment();
    columns::DecodedBlock decoded;
    // Strings come first, because a ring that uses a string may be drained before the ring that defines it.
    for (const bool strings : {true, false}) {
      for (const BlockPlace& place : walk.blocks) {
        if ((place.header.kind == static_cast<uint16_t>(Kind::kString)) != strings) continue;
        const auto taken =
            columns::Decode(std::as_bytes(std::span(bytes.substr(place.offset, place.bytes))), decoded);
        if (!taken.ok()) {
          damage = absl::StrCat(name, ": the block at byte ", place.offset,
                                " cannot be read: ", taken.status().message());
        } else if (strings) {
          tables.AddStrings(decoded, capture_.strings);
        } else {
          tables.AddRows(decoded, capture_.strings);
        }
        Advance(place.bytes);
      }
    }
    return damage;
  }

  void Count(const RankData& rows) {
    if (overflow_ == nullptr) return;
    const HeldBytes held = HeldBytesOf(rows);
    overflow_->Add(rows.activities.size() + rows.api_calls.size(), held.rows + held.other);
  }
  void MoveRows(RankData& rows) {
    if (overflow_ == nullptr || !overflow_->full()) return;
    Compact(rows);
    overflow_->Move(rows);
  }

  void FindIncomplete() {
    std::set<RankId> with_process;
    for (size_t p = 0; p < tables_.size(); ++p) {
      const ManifestProcess& process = manifest_.processes[p];
      with_process.insert(process.rank);
      const ProcessTables& tables = tables_[p];
      std::optional<IncompleteRank> entry = CheckProcess({process, tables.data, tables.read, tables.damaged},
                                                         manifest_.requested, manifest_state_);
      if (entry) AddIncomplete(*std::move(entry), capture_.incomplete);
    }
    for (const RankId rank : manifest_.missing_ranks) {
      if (with_process.contains(rank)) continue;
      AddIncomplete({.rank = rank, .reason = "no daemon reported it", .asked = {}, .recorded = Nanos()},
                    capture_.incomplete);
    }
  }

  void Join() {
    std::vector<RankId> ranks;
    for (const ProcessTables& t : tables_) ranks.push_back(t.data.rank);
    const GroupIndex groups = MakeGroups(tables_, ranks, capture_);
    uint64_t unjoined = 0, by_copies = 0;
    for (ProcessTables& t : tables_) {
      unjoined += JoinCollectives(groups, capture_.strings, t);
      for (const Collective& c : t.data.collectives)
        by_copies += c.source == MatchSource::kCopyEngine ? 1 : 0;
      timers_.push_back(JoinTimings(groups, t));
      MoveRows(t.data);
    }
    if (unjoined > 0) {
      Note(absl::StrCat(unjoined,
                        " collectives that NCCL described have no launch in the capture: their kernels are "
                        "matched by order"));
    }
    if (by_copies > 0) {
      Note(absl::StrCat(by_copies,
                        " collectives ran on the copy engines: their copies count as communication, and the "
                        "waiting for other ranks before them is not shown"));
    }
  }

  RecordedTrace TraceOf(size_t p) {
    const ManifestProcess& process = manifest_.processes[p];
    RecordedTrace trace;
    trace.rank = std::move(tables_[p].data);
    if (IsPlainFileName(process.trace.name)) trace.path = (folder_ / process.trace.name).string();
    trace.state = process.state;
    trace.text = process.text;
    return trace;
  }

  // Adds one RankData per device of the process.
  void AddRanks(size_t p) {
    ProcessTables& t = tables_[p];
    std::map<uint32_t, uint64_t> devices;
    for (const uint32_t d : t.device) ++devices[d];
    if (devices.size() <= 1) {
      if (!devices.empty()) {
        t.data.device = DeviceId(devices.begin()->first);
        t.data.gpu_timer = TimerOf(p, devices.begin()->first);
      } else {
        // Nothing ran in the window. CUPTI or NCCL may still have reported the device.
        t.data.device = t.objects.OnlyDevice().value_or(t.data.device);
        for (const CommunicatorRow& c : t.communicators) {
          if (c.device >= 0) t.data.device = DeviceId(static_cast<uint32_t>(c.device));
        }
      }
      t.objects.Describe(t.data);
      t.objects.DescribeRest({t.data.device.value()}, t.data);
      capture_.ranks.push_back(std::move(t.data));
      return;
    }
    const auto busiest = std::max_element(devices.begin(), devices.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
    std::vector<uint32_t> with_entries;
    for (const auto& [device, count] : devices) with_entries.push_back(device);
    for (const uint32_t device : with_entries) {
      const HostWork host_work = device == busiest->first ? HostWork::kAllElse : HostWork::kOwn;
      capture_.ranks.push_back(OfDevice(t, device, host_work));
      RankData& entry = capture_.ranks.back();
      entry.gpu_timer = TimerOf(p, device);
      t.objects.Describe(entry);
      if (host_work == HostWork::kAllElse) t.objects.DescribeRest(with_entries, entry);
    }
  }

  GpuTimer TimerOf(size_t process, uint32_t device) const {
    const auto found = timers_[process].find(device);
    return found != timers_[process].end() ? found->second : GpuTimer();
  }

  // Host work goes to the device with the most activities, so that no call counts twice. A call that launched
  // work of another device goes to that device.
  enum class HostWork { kOwn, kAllElse };

  // Returns the rows of the device's own operations. Rows of operations that are not in the capture go with
  // the host's work.
  template <typename Row>
  static std::vector<Row> OfOperations(const std::vector<Row>& rows,
                                       const absl::flat_hash_map<uint64_t, bool>& own, HostWork host_work) {
    std::vector<Row> out;
    for (const Row& row : rows) {
      const auto of = own.find(row.operation);
      if (of != own.end() ? of->second : host_work == HostWork::kAllElse) out.push_back(row);
    }
    return out;
  }

  static RankData OfDevice(const ProcessTables& t, uint32_t device, HostWork host_work) {
    const RankData& all = t.data;
    RankData out;
    out.rank = all.rank;
    out.host = all.host;
    out.device = DeviceId(device);
    out.pid = all.pid;
    out.incarnation = all.incarnation;
    out.program = all.program;
    out.rank_source = all.rank_source;
    out.window = all.window;
    std::vector<uint32_t> place(all.activities.size(), kNone);
    absl::flat_hash_map<CorrelationId, uint32_t> device_of;
    for (size_t i = 0; i < all.activities.size(); ++i) {
      device_of[all.activities[i].correlation] = t.device[i];
      if (t.device[i] != device) continue;
      place[i] = static_cast<uint32_t>(out.activities.size());
      DeviceActivity a = all.activities[i];
      a.collective = kNone;
      if (a.kind == ActivityKind::kKernel) {
        out.kernel_details.push_back(all.kernel_details[a.detail]);
        a.detail = static_cast<uint32_t>(out.kernel_details.size() - 1);
      } else {
        out.copy_details.push_back(all.copy_details[a.detail]);
        a.detail = static_cast<uint32_t>(out.copy_details.size() - 1);
      }
      out.activities.push_back(a);
    }
    absl::flat_hash_map<uint64_t, bool> own;  // operation → true if it is of this device
    for (Collective c : all.collectives) {
      if (c.operation != 0) own[c.operation] = place[c.activity] != kNone;
      if (place[c.activity] == kNone) continue;
      c.activity = place[c.activity];
      uint32_t& first = out.activities[c.activity].collective;
      if (first == kNone) first = static_cast<uint32_t>(out.collectives.size());
      out.collectives.push_back(c);
    }
    for (const ApiCall& call : all.api_calls) {
      const auto of = device_of.find(call.correlation);
      if (of != device_of.end() ? of->second == device : host_work == HostWork::kAllElse)
        out.api_calls.push_back(call);
    }
    out.channel_timings = OfOperations(all.channel_timings, own, host_work);
    out.proxy_ops = OfOperations(all.proxy_ops, own, host_work);
    if (host_work == HostWork::kOwn) return out;
    out.thread_names = all.thread_names;
    out.syncs = all.syncs;
    out.event_records = all.event_records;
    out.ranges = all.ranges;
    out.clocks = all.clocks;
    out.losses = all.losses;
    out.unseen_graph_launches = all.unseen_graph_launches;
    return out;
  }

  static std::string RankName(const RankData& data) {
    return data.rank == kNoRank ? absl::StrCat("process ", data.pid)
                                : absl::StrCat("rank ", data.rank.value());
  }

  static void AddLoss(RankData& data, Kind kind, uint64_t records, const std::string& reason) {
    data.losses.push_back(
        {"store", kind == Kind::kString ? "" : columns::KindName(kind), records, reason, {}, {}});
  }

  fs::path folder_;
  const LoadProgress& progress_;
  RowOverflow* const overflow_;
  uint64_t done_bytes_ = 0;
  uint64_t total_bytes_ = 0;
  ManifestState manifest_state_ = ManifestState::kNone;
  Manifest manifest_;
  Capture capture_;
  std::vector<ProcessTables> tables_;
  std::vector<GpuTimers> timers_;  // one per table
};

}  // namespace

absl::StatusOr<Recorded> ReadRecords(const std::string& folder, const LoadProgress& progress,
                                     RowOverflow* overflow) {
  fs::path path(folder);
  std::error_code error;
  if (fs::is_directory(path / "records", error)) path /= "records";
  return Loader(path, progress, overflow).Load();
}

absl::StatusOr<Capture> LoadRecords(const std::string& folder) {
  auto recorded = ReadRecords(folder);
  if (!recorded.ok()) return recorded.status();
  Capture& capture = recorded->capture;
  for (const RecordedTrace& trace : recorded->traces) {
    capture.notes.push_back(absl::StrCat("rank ", trace.rank.rank.value(),
                                         " was captured by PyTorch's profiler and is not read here"));
    capture.missing_ranks.push_back(trace.rank.rank);
  }
  Finish(capture);
  return std::move(capture);
}

}  // namespace lockstep::capture
