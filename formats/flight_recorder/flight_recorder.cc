#include "formats/flight_recorder/flight_recorder.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files/read_files.h"
#include "base/fnv.h"
#include "base/rpc/status_macros.h"
#include "formats/flight_recorder/pickle.h"

namespace lockstep::formats {
namespace {

using analysis::HangCommunicator;
using analysis::HangJob;
using analysis::HangOperation;
using analysis::HangRank;
using Value = Pickle::Value;

constexpr uint64_t kMostBytes = 256u << 20;
// Of each communicator, the newest operations are kept: so many, or up to twice as many. An older one does
// not matter.
constexpr size_t kMostOperations = 64;

// Returns the number at the end of a file's name.
std::optional<int32_t> RankOfName(const std::string& name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  int32_t rank = 0;
  const auto [end, error] = std::from_chars(name.data() + digits, name.data() + name.size(), rank);
  if (digits == name.size() || error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return rank;
}

// Returns the ranks of a text such as "[0, 1, 5]".
std::vector<int32_t> RanksOf(std::string_view text) {
  std::vector<int32_t> ranks;
  size_t at = 0;
  while ((at = text.find_first_of("0123456789", at)) != std::string_view::npos) {
    int32_t rank = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), rank);
    if (error == std::errc()) ranks.push_back(rank);
    at = static_cast<size_t>(end - text.data());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

class DumpReader {
 public:
  DumpReader(const Pickle& pickle, HangRank& rank) : pickle_(pickle), rank_(rank) {}

  // Returns the largest number of ranks of any group.
  absl::StatusOr<int32_t> Read() {
    const Value* entries = pickle_.Find(pickle_.root(), "entries");
    const Value* groups = pickle_.Find(pickle_.root(), "pg_config");
    if (entries == nullptr || entries->kind != Pickle::Kind::kList || groups == nullptr ||
        groups->kind != Pickle::Kind::kDict)
      return absl::InvalidArgumentError(
          "has no `entries` and `pg_config`, which dumps of the Flight Recorder have");
    int32_t world = 0;
    for (size_t i = 0; i + 1 < groups->items.size(); i += 2)
      world = std::max(world, AddGroup(pickle_.at(groups->items[i]).text, pickle_.at(groups->items[i + 1])));
    for (const Pickle::Index entry : entries->items) AddEntry(pickle_.at(entry));
    for (auto& [name, group] : groups_) rank_.communicators.push_back(std::move(group));
    return world;
  }

 private:
  // Names of groups repeat, so the ranks are part of a group's identity.
  int32_t AddGroup(std::string_view name, const Value& config) {
    const std::string_view ranks_text = pickle_.Text(config, "ranks");
    const std::vector<int32_t> ranks = RanksOf(ranks_text);
    const auto place = std::find(ranks.begin(), ranks.end(), rank_.rank.value());
    if (place == ranks.end()) return 0;
    HangCommunicator& group = groups_[std::string(name)];
    group.id = Fnv1a(std::string(name) + " " + std::string(ranks_text));
    const std::string_view description = pickle_.Text(config, "desc");
    group.name = std::string(description.empty() || description == "undefined" ? name : description);
    group.rank = static_cast<int32_t>(place - ranks.begin());
    group.ranks = static_cast<int32_t>(ranks.size());
    group.reports_launches = group.reports_kernels = true;
    return group.ranks;
  }

  void AddEntry(const Value& entry) {
    const auto found = groups_.find(std::string(GroupOf(entry)));
    if (found == groups_.end()) return;
    HangCommunicator& group = found->second;
    HangOperation operation;
    const std::string_view state = pickle_.Text(entry, "state");
    operation.launched = true;
    operation.started = state != "scheduled";
    operation.completed = state == "completed";
    operation.entered_ago = Nanos(pickle_.Number(entry, "time_created_ns"));
    TakeName(pickle_.Text(entry, "profiling_name"), operation);
    TakeShape(entry, operation);
    const bool message = pickle_.Number(entry, "is_p2p") != 0;
    operation.number = message ? 0 : static_cast<uint64_t>(pickle_.Number(entry, "collective_seq_id"));
    std::vector<HangOperation>& operations = group.operations;
    // The operations of a group of calls share one number. Its last entry stands for all.
    if (!message && !operations.empty() && operations.back().number == operation.number)
      operations.pop_back();
    operation.position = operations.empty() ? 1 : operations.back().position + 1;
    group.collectives_entered = std::max(group.collectives_entered, operation.number);
    operations.push_back(std::move(operation));
    if (operations.size() > 2 * kMostOperations)
      operations.erase(operations.begin(), operations.end() - static_cast<ptrdiff_t>(kMostOperations));
  }

  // The member is a pair of name and description; in older dumps it is the name.
  std::string_view GroupOf(const Value& entry) const {
    const Value* group = pickle_.Find(entry, "process_group");
    if (group == nullptr) return {};
    if (group->kind == Pickle::Kind::kText) return group->text;
    return group->kind == Pickle::Kind::kList && !group->items.empty() ? pickle_.at(group->items[0]).text
                                                                       : std::string_view();
  }

  // "nccl:all_reduce", "nccl:send 0->1", "nccl:recv 1<-0": the numbers are of the group.
  static void TakeName(std::string_view name, HangOperation& operation) {
    name.remove_prefix(std::min(name.find(':') + 1, name.size()));
    const size_t space = name.find(' ');
    operation.function = std::string(name.substr(0, space));
    if (space == std::string_view::npos) return;
    const size_t to = name.find("->", space);
    const size_t from = name.find("<-", space);
    const size_t at = to != std::string_view::npos ? to : from;
    if (at == std::string_view::npos) return;
    const std::string_view peer = name.substr(at + 2);
    std::from_chars(peer.data(), peer.data() + peer.size(), operation.peer);
  }

  // Operations whose sizes may differ between ranks have the size 0.
  void TakeShape(const Value& entry, HangOperation& operation) const {
    const Value* types = pickle_.Find(entry, "input_dtypes");
    if (types != nullptr && types->kind == Pickle::Kind::kText) operation.datatype = std::string(types->text);
    if (types != nullptr && types->kind == Pickle::Kind::kList && !types->items.empty())
      operation.datatype = std::string(pickle_.at(types->items[0]).text);
    const Value* sizes = pickle_.Find(entry, "input_sizes");
    if (sizes == nullptr || sizes->items.empty() || HasUnevenSizes(operation.function)) return;
    uint64_t count = 1;
    for (const Pickle::Index size : pickle_.at(sizes->items[0]).items)
      count *= static_cast<uint64_t>(pickle_.at(size).number);
    operation.count = count;
  }
  static bool HasUnevenSizes(std::string_view function) {
    for (const std::string_view part : {"all_to_all", "alltoall", "coalesced"}) {
      if (function.find(part) != std::string_view::npos) return true;
    }
    return function == "scatter";
  }

  const Pickle& pickle_;
  HangRank& rank_;
  std::map<std::string, HangCommunicator> groups_;
};

}  // namespace

absl::Status AddFlightRecorderDump(std::string_view bytes, RankId rank, HangJob& job) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Pickle pickle, Pickle::Parse(bytes));
  HangRank read;
  read.rank = rank;
  LOCKSTEP_ASSIGN_OR_RETURN(const int32_t world, DumpReader(pickle, read).Read());
  job.world_size = std::max(job.world_size, world);
  job.ranks.push_back(std::move(read));
  return absl::OkStatus();
}

void AgeFromNewest(HangJob& job) {
  const auto each = [&](auto take) {
    for (HangRank& rank : job.ranks) {
      for (HangCommunicator& group : rank.communicators) {
        for (HangOperation& operation : group.operations) take(operation);
      }
    }
  };
  Nanos newest;
  each([&](const HangOperation& operation) { newest = std::max(newest, operation.entered_ago); });
  each([&](HangOperation& operation) {
    operation.entered_ago = operation.entered_ago <= Nanos() ? Nanos() : newest - operation.entered_ago;
  });
}

absl::StatusOr<HangJob> ReadFlightRecorder(const std::string& folder) {
  HangJob job;
  job.job = folder;
  for (const std::filesystem::directory_entry& entry : FolderEntries(folder)) {
    const std::string name = entry.path().filename().string();
    const std::optional<int32_t> rank = RankOfName(name);
    if (!rank) continue;
    const InputFile file = OpenInputFile(entry.path().string());
    if (file.fd.ok() && file.bytes > kMostBytes)
      return absl::InvalidArgumentError(absl::StrCat(entry.path().string(), " has more than 256 MiB"));
    const std::optional<std::string> bytes = file.fd.ok() ? RestOf(file) : std::nullopt;
    if (!bytes)
      return absl::InvalidArgumentError(absl::StrCat(entry.path().string(), " cannot be read: ", file.why));
    if (absl::Status added = AddFlightRecorderDump(*bytes, RankId(*rank), job); !added.ok())
      return absl::InvalidArgumentError(
          absl::StrCat(entry.path().string(), ": ", std::string(added.message())));
  }
  if (job.ranks.empty())
    return absl::NotFoundError(absl::StrCat(
        folder,
        " has no dump of PyTorch's Flight Recorder, one file per rank whose name ends in the rank's "
        "number (TORCH_NCCL_DEBUG_INFO_TEMP_FILE)"));
  std::sort(job.ranks.begin(), job.ranks.end(),
            [](const HangRank& a, const HangRank& b) { return a.rank < b.rank; });
  AgeFromNewest(job);
  return job;
}

}  // namespace lockstep::formats
