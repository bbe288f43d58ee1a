#include "formats/nsys/nsys_capture.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "formats/common/nest_ranges.h"
#include "formats/nsys/nsys_nccl.h"
#include "formats/nsys/nsys_schema.h"

namespace lockstep::formats {
namespace {

using capture::Capture;
using capture::RankData;

// Launchers' variables for the rank of a process, as the client reads them.
constexpr std::string_view kRankVariables[] = {"LOCKSTEP_RANK",  "RANK",         "OMPI_COMM_WORLD_RANK",
                                               "PMIX_RANK",      "SLURM_PROCID", "PMI_RANK",
                                               "FLUX_TASK_RANK", "PALS_RANKID"};

struct Process {
  size_t file = 0;
  NsysProcess* rows = nullptr;
  RankId rank = kNoRank;
  std::string source;
};

std::string NameOf(const std::vector<ReadNsysFile>& files, const Process& p) {
  return absl::StrCat("process ", nsys::PidOf(p.rows->global_pid), " of ", files[p.file].from.path);
}

// Lists the processes in the order that numbers them if no source names their ranks. They are sorted by file.
// Those of a file are sorted by device if no two of them share one, else by pid.
std::vector<Process> ListProcesses(std::vector<ReadNsysFile>& files) {
  std::vector<Process> all;
  for (size_t f = 0; f < files.size(); ++f) {
    std::vector<Process> of_file;
    std::set<DeviceId> devices;
    size_t uses = 0;
    for (auto& [pid, rows] : files[f].content.processes) {
      of_file.push_back({f, &rows, kNoRank, ""});
      for (const NsysDevice& d : rows.devices) devices.insert(d.device);
      uses += rows.devices.size();
    }
    if (uses == devices.size()) {
      std::stable_sort(of_file.begin(), of_file.end(), [](const Process& a, const Process& b) {
        return a.rows->devices.front().device < b.rows->devices.front().device;
      });
    }
    all.insert(all.end(), of_file.begin(), of_file.end());
  }
  return all;
}

// Returns the rank in the largest communicator that the process joined.
std::optional<RankId> NcclRank(const NsysProcess& process, int32_t* ranks) {
  std::optional<RankId> rank;
  *ranks = 0;
  for (const NcclCall& call : process.nccl_calls) {
    if (!call.payload || !call.payload->rank || !call.payload->ranks || *call.payload->ranks <= *ranks)
      continue;
    *ranks = *call.payload->ranks;
    rank = RankId(*call.payload->rank);
  }
  return rank;
}

std::optional<RankId> RankOfEnvironment(const NsysFile& file) {
  for (const std::string_view variable : kRankVariables) {
    const auto it = file.environment.find(variable);
    if (it == file.environment.end()) continue;
    int32_t rank = -1;
    const std::string& text = it->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (error == std::errc() && end == text.data() + text.size() && rank >= 0) return RankId(rank);
  }
  return std::nullopt;
}

// Takes all ranks from one source, because numbers of different sources do not fit together.
template <typename Of>
bool NameAll(std::vector<Process>& processes, std::string_view source, const Of& rank_of) {
  std::vector<RankId> ranks;
  for (const Process& p : processes) {
    const std::optional<RankId> rank = rank_of(p);
    if (!rank) return false;
    ranks.push_back(*rank);
  }
  for (size_t i = 0; i < processes.size(); ++i) {
    processes[i].rank = ranks[i];
    processes[i].source = source;
  }
  return true;
}

void NameRanks(const std::vector<ReadNsysFile>& files, std::vector<Process>& processes, Capture& capture) {
  if (NameAll(processes, "MPI", [](const Process& p) { return p.rows->mpi_rank; })) return;
  std::set<int32_t> sizes;
  std::set<RankId> ranks;
  for (const Process& p : processes) {
    int32_t size = 0;
    if (const auto rank = NcclRank(*p.rows, &size)) ranks.insert(*rank);
    sizes.insert(size);
  }
  const bool one_world = sizes.size() == 1 && ranks.size() == processes.size();
  const auto of_nccl = [](const Process& p) {
    int32_t size = 0;
    return NcclRank(*p.rows, &size);
  };
  if (one_world && NameAll(processes, "NCCL's largest communicator", of_nccl)) {
    capture.world_size = *sizes.begin();
    return;
  }
  // The variables of a file with several processes are those of their launcher, so they name no process's
  // rank.
  const auto alone = [&](const Process& p) { return files[p.file].content.processes.size() == 1; };
  const auto of_environment = [&](const Process& p) {
    return alone(p) ? RankOfEnvironment(files[p.file].content) : std::nullopt;
  };
  if (NameAll(processes, "environment", of_environment)) return;
  const auto of_name = [&](const Process& p) { return alone(p) ? RankOf(files[p.file].from) : std::nullopt; };
  if (NameAll(processes, "file name", of_name)) return;
  for (size_t i = 0; i < processes.size(); ++i) {
    processes[i].rank = RankId(static_cast<int32_t>(i));
    processes[i].source = "position";
  }
  if (processes.size() > 1) {
    capture.notes.push_back(absl::StrCat(processes.size(),
                                         " processes are numbered by file, then by device or pid: MPI, NCCL, "
                                         "the environment and the file names "
                                         "give no ranks"));
  }
}

absl::Status CheckRanksDiffer(const std::vector<ReadNsysFile>& files, const std::vector<Process>& processes) {
  std::map<RankId, const Process*> first;
  for (const Process& p : processes) {
    const auto [it, fresh] = first.try_emplace(p.rank, &p);
    if (fresh) continue;
    return absl::InvalidArgumentError(absl::StrCat(NameOf(files, *it->second), " and ", NameOf(files, p),
                                                   " would both be rank ", p.rank.value(), " (by ", p.source,
                                                   "); give one export per rank or node"));
  }
  return absl::OkStatus();
}

absl::Status DropUnusable(std::vector<ReadNsysFile>& files, Capture& capture) {
  std::vector<ReadNsysFile> usable;
  std::string first_reason;
  for (ReadNsysFile& file : files) {
    const std::string why = WhyNsysUnusable(file.content);
    if (why.empty()) {
      usable.push_back(std::move(file));
      continue;
    }
    const std::string sentence = absl::StrCat(file.from.path, why);
    if (file.from.named || files.size() == 1) return absl::InvalidArgumentError(sentence);
    if (first_reason.empty()) first_reason = sentence;
    capture.notes.push_back(absl::StrCat(sentence, " (left out)"));
  }
  files = std::move(usable);
  return files.empty() ? absl::InvalidArgumentError(first_reason) : absl::OkStatus();
}

// The communicators of all files. NCCL's ids are the same in every process.
class Communicators {
 public:
  explicit Communicators(Capture& capture) : capture_(capture) {}

  uint32_t Of(uint64_t id) {
    const auto [it, fresh] = index_.try_emplace(id, static_cast<uint32_t>(capture_.groups.size()));
    if (fresh) {
      capture::Group group;
      group.key = absl::StrFormat("%016x", id);
      capture_.groups.push_back(std::move(group));
      members_.emplace_back();
    }
    return it->second;
  }
  void Join(const NcclPayload& p, RankId rank) {
    if (!p.communicator || !p.ranks || !p.rank || *p.rank >= *p.ranks) return;
    const uint32_t g = Of(*p.communicator);
    capture_.groups[g].size = std::max(capture_.groups[g].size, *p.ranks);
    members_[g][*p.rank] = rank;
  }
  // The members of a communicator are known if all of them were seen to join.
  void Finish() {
    for (size_t g = 0; g < members_.size(); ++g) {
      capture::Group& group = capture_.groups[g];
      if (group.size == 0 || members_[g].size() != static_cast<size_t>(group.size)) continue;
      for (const auto& [place, rank] : members_[g]) group.members.push_back(rank);
    }
  }

 private:
  Capture& capture_;
  absl::flat_hash_map<uint64_t, uint32_t> index_;
  std::vector<std::map<int32_t, RankId>> members_;  // by place in the communicator
};

void AddCollectives(const NsysFile& file, const NcclJoin& join, Communicators& communicators,
                    std::span<RankData> entries, Capture& capture) {
  for (const NcclKernel& kernel : join.kernels) {
    RankData& entry = entries[kernel.device];
    capture::DeviceActivity& a = entry.activities[kernel.activity];
    capture::Collective c{.activity = kernel.activity};
    if (kernel.payload.communicator) c.group = communicators.Of(*kernel.payload.communicator);
    c.op = capture::CollectiveOpFromText(file.strings.Text(kernel.name));
    c.bytes = kernel.payload.bytes.value_or(-1);
    c.root = kernel.payload.root.value_or(-1);
    c.peer = kernel.payload.peer.value_or(-1);
    if (kernel.payload.reduction) {
      const auto name = file.reductions.find(*kernel.payload.reduction);
      if (name != file.reductions.end()) c.reduction = capture.strings.Intern(name->second);
    }
    a.communication = true;
    if (a.collective == capture::kNone) a.collective = static_cast<uint32_t>(entry.collectives.size());
    entry.collectives.push_back(c);
  }
  if (join.ambiguous == 0) return;
  RankData& first = entries[0];
  first.losses.push_back({"nccl", "collective", join.ambiguous,
                          "calls of one NCCL group that several kernels match", first.window.start,
                          first.window.end});
}

uint32_t HostOf(const ReadNsysFile& file, const NsysProcess& rows, std::map<std::string, uint32_t>& known,
                Capture& capture) {
  const int64_t machine = rows.global_pid >> 48 << 48;
  const auto name = file.content.host_names.find(machine);
  const auto& any = file.content.host_names;
  std::string stated = name != any.end() ? name->second : any.size() == 1 ? any.begin()->second : "";
  const std::string id = stated.empty() ? file.from.path : stated;
  const auto [it, fresh] = known.try_emplace(id, static_cast<uint32_t>(capture.hosts.size()));
  if (fresh) capture.hosts.push_back({.id = id, .name = std::move(stated)});
  return it->second;
}

void AddRanks(const ReadNsysFile& file, const Process& process, uint32_t host, Communicators& communicators,
              Capture& capture) {
  NsysProcess& rows = *process.rows;
  for (const NcclCall& call : rows.nccl_calls) {
    if (call.payload) communicators.Join(*call.payload, process.rank);
  }
  if (const std::string gaps = DescribeClosedGaps(rows.operators, rows.data_loader); !gaps.empty())
    capture.notes.push_back(absl::StrCat(file.from.path, gaps));
  const NcclJoin join = JoinNcclCalls(file.content.strings, rows);
  std::vector<RankData> entries = TakeNsysRows(file.content.strings, rows, capture.strings);
  const int32_t pid = nsys::PidOf(rows.global_pid);
  for (RankData& entry : entries) {
    entry.rank = process.rank;
    entry.rank_source = process.source;
    entry.host = host;
    entry.pid = pid;
    entry.program = rows.name;
    entry.source_file = file.from.path;
    const auto gpu = file.content.gpu_of.find({pid, entry.device});
    const auto properties =
        gpu == file.content.gpu_of.end() ? file.content.gpus.end() : file.content.gpus.find(gpu->second);
    if (properties == file.content.gpus.end()) continue;
    entry.properties = properties->second;
    entry.has_properties = true;
  }
  AddCollectives(file.content, join, communicators, entries, capture);
  for (RankData& entry : entries) capture.ranks.push_back(std::move(entry));
}

void NoteWhatIsMissing(const std::vector<ReadNsysFile>& files, Capture& capture) {
  for (const ReadNsysFile& file : files) {
    const NsysFile& f = file.content;
    const auto note = [&](bool there, std::string_view what) {
      if (!there) capture.notes.push_back(absl::StrCat(file.from.path, std::string(what)));
    };
    note(f.base != JobTime(),
         " does not have the start of its session: its times cannot be compared with those of other files");
    note(f.has_calls,
         " has no calls of the host (CUPTI_ACTIVITY_KIND_RUNTIME), so launches are unknown; record "
         "with --trace=cuda");
    note(f.has_ranges, " has no ranges (NVTX_EVENTS), so steps are inferred; record with --trace=cuda,nvtx");
    const bool has_calls_of_nccl = std::any_of(f.processes.begin(), f.processes.end(),
                                               [](const auto& p) { return !p.second.nccl_calls.empty(); });
    const bool has_payloads = std::any_of(f.processes.begin(), f.processes.end(), [](const auto& p) {
      return std::any_of(p.second.nccl_calls.begin(), p.second.nccl_calls.end(),
                         [](const NcclCall& c) { return c.payload.has_value(); });
    });
    note(!has_calls_of_nccl || has_payloads,
         " has NCCL's calls without their payloads, so communicators and sizes are unknown; export with "
         "--include-blobs=true");
  }
}

// Adds the unreadable parts of the file as losses of stage "import" of `rank`.
void AddLosses(const NsysFile& file, const std::string& path, RankData& rank) {
  for (const auto& [table, lost] : file.losses.tables()) {
    rank.losses.push_back(
        {"import", "", lost.rows,
         absl::StrCat(path, ": rows of ", table, " that cannot be read; the first: ", lost.first,
                      lost.rest.empty() ? "" : absl::StrCat("; ", lost.rest, ", in unknown number")),
         rank.window.start, rank.window.end});
  }
  if (!file.damage.empty())
    rank.losses.push_back(
        {"import", "", 1, absl::StrCat(path, " ", file.damage), rank.window.start, rank.window.end});
}

}  // namespace

std::string WhyNsysUnusable(const NsysFile& file) {
  if (!file.processes.empty()) return "";
  if (!file.damage.empty())
    return absl::StrCat(" ", file.damage, " and holds no device activity that can be read; copy it again");
  if (file.losses.rows() != 0)
    return absl::StrCat(" holds no device activity that can be read: ", file.losses.Describe());
  return " holds no device activity (CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET); give an SQLite export of "
         "Nsight Systems, recorded with --trace=cuda";
}

absl::StatusOr<Capture> JoinNsysFiles(std::vector<ReadNsysFile> files, capture::RowOverflow* overflow) {
  Capture capture;
  if (absl::Status s = DropUnusable(files, capture); !s.ok()) return s;
  std::vector<Process> processes = ListProcesses(files);
  NameRanks(files, processes, capture);
  if (absl::Status s = CheckRanksDiffer(files, processes); !s.ok()) return s;
  NoteWhatIsMissing(files, capture);
  std::map<std::string, uint32_t> hosts;
  Communicators communicators(capture);
  std::vector<bool> losses_told(files.size(), false);
  for (const Process& p : processes) {
    const size_t first = capture.ranks.size();
    AddRanks(files[p.file], p, HostOf(files[p.file], *p.rows, hosts, capture), communicators, capture);
    if (!losses_told[p.file]) AddLosses(files[p.file].content, files[p.file].from.path, capture.ranks[first]);
    losses_told[p.file] = true;
    for (size_t r = first; r < capture.ranks.size() && overflow != nullptr; ++r)
      overflow->Move(capture.ranks[r]);
  }
  communicators.Finish();
  return capture;
}

}  // namespace lockstep::formats
