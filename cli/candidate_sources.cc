#include "cli/candidate_sources.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "aggregator/captures/selection.h"
#include "aggregator/server.h"
#include "base/files/read_files.h"
#include "base/rpc/channel.h"
#include "cli/common/aggregator_client.h"
#include "cli/common/daemon_socket.h"
#include "lockstep/v1/control.pb.h"
#include "report/report.h"
#include "views/catalog/diff_view.h"
#include "views/catalog/profile_view.h"
#include "views/catalog/views.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// A capture without ranks has the columns of every other one.
views::Grid EmptyGridOf(const std::string& command, const ValueOfOption& option) {
  const capture::Capture capture;
  if (command == "diff") return views::MakeDiff({capture, {}}, {capture, {}}, views::DiffKey::kKernel).grid;
  if (command == "profile") return views::MakeProfile({}, views::PythonRows::kAllRanks).grid;
  for (const views::View& view : views::Views()) {
    if (view.name != command) continue;
    const std::string table = option("--table"), method = option("--method");
    views::ViewOptions options{.table = table, .method = method};
    for (const std::string& name : std::vector<std::string>(absl::StrSplit(option("--group-by"), ','))) {
      for (const views::GroupName& group : view.groupings) {
        if (group.name == name) options.group_by.push_back(group.group);
      }
    }
    const report::Analysis analysis = report::Analyze(capture);
    return view
        .make({.capture = capture, .analysis = [&]() -> const report::Analysis& { return analysis; }},
              options)
        .grid;
  }
  return views::Grid({});
}

std::vector<Candidate> ColumnsOfCommand(const std::string& command, const ValueOfOption& option) {
  std::vector<Candidate> all;
  const views::Grid grid = EmptyGridOf(command, option);
  for (const views::Column& column : grid.table().columns)
    all.push_back({std::string(column.name), std::string(column.meaning)});
  return all;
}

bool IsCapture(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "records" / "manifest.json", error) || fs::exists(folder / "report.json", error);
}

// Lists the captures in the folder that `typed` names, by their paths as the user begins them.
std::vector<Candidate> FoldersFrom(const std::string& typed) {
  const std::string parent = typed.substr(0, typed.rfind('/') + 1);
  std::vector<Candidate> all;
  std::error_code error;
  for (const auto& entry : FolderEntries(parent.empty() ? "." : parent)) {
    if (entry.is_directory(error) && IsCapture(entry.path()))
      all.push_back({parent + entry.path().filename().string(), "capture"});
  }
  return all;
}

std::vector<Candidate> CapturesFrom(const std::string& typed) {
  std::vector<Candidate> all = FoldersFrom(typed);
  std::error_code error;
  for (const auto& entry : FolderEntries(aggregator::CapturesFolder(aggregator::DefaultStateDir()))) {
    if (entry.is_directory(error))
      all.push_back({entry.path().filename().string(), "capture of an aggregator"});
  }
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.text < b.text; });
  return all;
}

std::unique_ptr<v1::StatusReply> AskStatus(const AggregatorFlags& aggregator, const std::string& daemon) {
  if (aggregator.given()) {
    auto client = ConnectAggregator(aggregator);
    auto reply = client.ok() ? (*client)->Status("") : client.status();
    return reply.ok() ? *std::move(reply) : nullptr;
  }
  const auto found = DaemonFinder(daemon).Find();
  if (!found.ok()) return nullptr;
  auto reply = DaemonStatus(found->control_socket, "");
  return reply.ok() ? *std::move(reply) : nullptr;
}

std::vector<Candidate> JobsIn(const v1::StatusReply& reply) {
  std::map<std::string, std::map<uint32_t, std::vector<int32_t>>> jobs;  // ranks by id and user
  for (const v1::DaemonStatus& daemon : reply.daemons()) {
    for (const v1::Rank& rank : daemon.ranks()) jobs[rank.job()][rank.uid()].push_back(rank.rank());
  }
  std::vector<Candidate> all;
  for (auto& [id, users] : jobs) {
    for (auto& [uid, ranks] : users) {
      std::sort(ranks.begin(), ranks.end());
      all.push_back({users.size() > 1 ? absl::StrCat(uid, ":", id) : id,
                     absl::StrCat("rank", ranks.size() == 1 ? " " : "s ", aggregator::RankList(ranks))});
    }
  }
  return all;
}

std::string OfEnvironment(const std::string& value, const char* variable) {
  const char* set = std::getenv(variable);
  return value.empty() && set != nullptr ? set : value;
}

std::vector<Candidate> JobsNow(const ValueOfOption& option) {
  constexpr std::chrono::milliseconds kLongest{250};
  const AggregatorFlags aggregator{OfEnvironment(option("--aggregator"), "LOCKSTEP_AGGREGATOR"),
                                   OfEnvironment(option("--token-file"), "LOCKSTEP_TOKEN_FILE"),
                                   OfEnvironment(option("--tls-dir"), "LOCKSTEP_TLS_DIR")};
  rpc::PrepareProcess();
  std::promise<std::vector<Candidate>> promise;
  std::future<std::vector<Candidate>> answer = promise.get_future();
  std::thread([aggregator, daemon = option("--daemon"), promise = std::move(promise)]() mutable {
    const auto reply = AskStatus(aggregator, daemon);
    promise.set_value(reply == nullptr ? std::vector<Candidate>() : JobsIn(*reply));
  }).detach();
  if (answer.wait_for(kLongest) != std::future_status::ready) return {};
  return answer.get();
}

}  // namespace

CandidateSources ProgramSources() { return {ColumnsOfCommand, CapturesFrom, JobsNow}; }

}  // namespace lockstep::cli
