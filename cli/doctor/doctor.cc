// Implements `lockstep doctor`: shows which parts work on this machine, and the remedies for the others.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/client_entry.h"
#include "base/log/clean_text.h"
#include "base/rpc/channel.h"
#include "cli/common/aggregator_client.h"
#include "cli/common/command.h"
#include "cli/common/daemon_socket.h"
#include "cli/common/installation.h"
#include "cli/doctor/cluster_checks.h"
#include "cli/doctor/doctor_checks.h"
#include "cli/doctor/process_checks.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::cli {
namespace {

constexpr char kAbout[] =
    "Check this machine and print a remedy for each problem. Changes nothing.\n"
    "\n"
    "Examples:\n"
    "  lockstep doctor                 this machine\n"
    "  lockstep doctor --pid 4711      why this process is or is not captured\n"
    "  lockstep doctor --cluster --aggregator head:7077 --token-file ~/.lockstep-token\n"
    "                                  the aggregator, its nodes and their ranks\n";

Finding FromStatus(const char* what, const absl::StatusOr<std::string>& found) {
  if (found.ok()) return {Verdict::kWorks, absl::StrCat(what, ": ", *found)};
  return {Verdict::kBroken,
          absl::StrCat(what, ": ", std::string(found.status().message()), "; install Lockstep again")};
}

void AddDaemon(const std::string& argument, std::vector<Finding>& findings) {
  bool answered = false;
  std::string why;
  for (const DaemonFinder::Place& place : DaemonFinder(argument).Places()) {
    if (place.why_not.empty() && !answered) {
      findings.push_back({Verdict::kWorks, absl::StrCat("daemon: answers at ", place.path)});
      answered = true;
    } else if (!place.why_not.empty()) {
      absl::StrAppend(&why, why.empty() ? "" : "; ", place.path, ": ", place.why_not);
    }
  }
  if (!answered) {
    findings.push_back(
        {Verdict::kNote, absl::StrCat("daemon: none answers; `lockstep run` starts one (", why, ")")});
  }
}

// Returns the CUDA version that the driver supports, or 0 if there is none. Does not initialise the driver.
int DriverCuda() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return 0;
  const auto version_of = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDriverGetVersion"));
  int version = 0;
  const bool known = version_of != nullptr && version_of(&version) == 0;
  return known ? version : 0;
}

// Looks for CUPTI in the system's places. The client later uses the CUPTI of its process, which may differ.
Finding Cupti() {
  constexpr const char* kPlaces[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so",
                                     "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                                     "/usr/local/cuda/lib64/libcupti.so"};
  const char* wanted = std::getenv("LOCKSTEP_CUPTI_LIB");
  const auto check = [](const std::string& place) -> std::optional<Finding> {
    void* library = ::dlopen(place.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) return std::nullopt;
    const auto version_of = reinterpret_cast<uint32_t (*)(uint32_t*)>(::dlsym(library, "cuptiGetVersion"));
    uint32_t version = 0;
    if (version_of == nullptr || version_of(&version) != 0) {
      return Finding{Verdict::kBroken,
                     absl::StrCat("CUPTI: ", place, " reports no version: it is not CUPTI, or a stub")};
    }
    return CheckCuptiVersion(place, version, DriverCuda());
  };
  if (wanted != nullptr && wanted[0] != '\0') {
    return check(wanted).value_or(Finding{
        Verdict::kBroken, absl::StrCat("CUPTI: cannot open ", wanted, ", which LOCKSTEP_CUPTI_LIB names")});
  }
  for (const char* place : kPlaces) {
    if (std::optional<Finding> found = check(place)) return *found;
  }
  return {Verdict::kNote,
          "CUPTI: not among the system's libraries; PyTorch has its own, otherwise set "
          "LOCKSTEP_CUPTI_LIB to its path"};
}

void Append(std::vector<Finding> more, std::vector<Finding>& findings) {
  for (Finding& finding : more) findings.push_back(std::move(finding));
}

void AddVariables(std::vector<Finding>& findings) {
  for (const char* name : {kCudaInjection, kNvtxInjection, kNcclPlugin}) {
    const char* value = std::getenv(name);
    if (value == nullptr || value[0] == '\0' ||
        std::string(value).find("liblockstep_client") != std::string::npos)
      continue;
    const bool chained = std::string(name) != kCudaInjection;
    findings.push_back(
        chained ? Finding{Verdict::kNote,
                          absl::StrCat(
                              name, ": is set to ", value,
                              "; `lockstep run` sets Lockstep instead, which passes every call on to it")}
                : Finding{Verdict::kBroken,
                          absl::StrCat(
                              name, ": is set to ", value,
                              ", and CUDA loads one tool only: unset it, or use `lockstep run --preload`")});
  }
}

// Reports the daemon's knowledge of the process.
Finding CheckRegistration(const std::string& argument, const ProcessView& process) {
  const std::string configured = process.Variable("LOCKSTEP_SOCKET");
  auto place = DaemonFinder(argument.empty() ? configured : argument).Find();
  if (!place.ok()) return {Verdict::kBroken, absl::StrCat("daemon: ", std::string(place.status().message()))};
  rpc::PrepareProcess();
  const auto reply = DaemonStatus(place->control_socket, "");
  if (!reply.ok()) {
    return {Verdict::kBroken, absl::StrCat("daemon: ", place->client_socket,
                                           " does not answer: ", std::string(reply.status().message()))};
  }
  for (const v1::DaemonStatus& daemon : (*reply)->daemons()) {
    for (const v1::Rank& rank : daemon.ranks()) {
      if (rank.process().pid() != process.pid) continue;
      const std::string who = absl::StrCat("rank ", rank.rank(), " of job ", rank.job());
      const char* way = rank.via() == "kineto" ? ", by PyTorch's profiler only" : "";
      return {Verdict::kWorks, absl::StrCat("daemon: ", place->client_socket, " knows it as ", who, way)};
    }
    for (const std::string& warning : daemon.warnings()) {
      // Matches warnings such as "pid 47, python uses a GPU …" and "… pid 47 of user 1000 was refused".
      const std::string who = absl::StrCat("pid ", process.pid);
      if (absl::StrContains(warning, who + ",") || absl::StrContains(warning, who + " of")) {
        return {Verdict::kBroken, absl::StrCat("daemon: ", warning)};
      }
    }
  }
  return {Verdict::kNote, absl::StrCat("daemon: ", place->client_socket,
                                       " does not know it; a rank registers when it initialises CUDA")};
}

std::vector<Finding> ExamineProcess(const std::string& daemon, const ProcessView& process) {
  std::vector<Finding> findings = {DescribeProcess(process)};
  findings.push_back(CheckClient(process));
  Append(CheckCudaLibraries(process), findings);
  findings.push_back(CheckSocket(process));
  findings.push_back(CheckRegistration(daemon, process));
  Append(CheckOtherTools(process), findings);
  Append(CheckItsGpu(process), findings);
  Append(CheckNamespaces(process), findings);
  Append(CheckOtherProfilers("/"), findings);
  return findings;
}

std::vector<Finding> ExamineMachine(const std::string& daemon) {
  const Installation installation = Installation::OfThisProgram();
  std::vector<Finding> findings;
  findings.push_back(FromStatus("client library", installation.ClientLibrary()));
  findings.push_back(FromStatus("lockstepd", installation.Program("lockstepd")));
  findings.push_back(FromStatus("lockstep-aggregator", installation.Program("lockstep-aggregator")));
  AddDaemon(daemon, findings);
  findings.push_back(CheckGpuAccess("/"));
  findings.push_back(Cupti());
  Append(CheckSharing("/"), findings);
  Append(CheckOtherProfilers("/"), findings);
  AddVariables(findings);
  return findings;
}

struct Flags {
  std::string daemon, job, format = "text";
  int32_t pid = 0;
  bool cluster = false;
  AggregatorFlags aggregator;
};

ExitCode PrintFindings(const std::vector<Finding>& findings, const std::string& format) {
  std::fputs((format == "json" ? FindingsToJson(findings) : CleanLines(FindingsToText(findings))).c_str(),
             stdout);
  const bool broken = std::any_of(findings.begin(), findings.end(),
                                  [](const Finding& finding) { return finding.verdict == Verdict::kBroken; });
  return broken ? ExitCode::kFailed : ExitCode::kDone;
}

ExitCode DoctorOfCluster(const Flags& flags) {
  if (!flags.aggregator.given()) {
    return Fail(
        ExitCode::kUsage,
        "doctor --cluster needs an aggregator: give --aggregator HOST:PORT, or set LOCKSTEP_AGGREGATOR");
  }
  rpc::PrepareProcess();
  auto client = ConnectAggregator(flags.aggregator);
  if (!client.ok()) return Fail(client.status());
  const auto reply = (*client)->Status(flags.job);
  if (!reply.ok()) return Fail(reply.status());
  return PrintFindings(CheckCluster(**reply, LOCKSTEP_VERSION), flags.format);
}

ExitCode Doctor(const Flags& flags) {
  if (flags.cluster) return DoctorOfCluster(flags);
  if (!flags.job.empty()) return Fail(ExitCode::kUsage, "--job needs --cluster; use --pid for a process");
  if (flags.pid == 0) return PrintFindings(ExamineMachine(flags.daemon), flags.format);
  const auto process = ViewProcess("/", flags.pid);
  if (!process.ok()) return Fail(process.status());
  return PrintFindings(ExamineProcess(flags.daemon, *process), flags.format);
}

}  // namespace

void AddDoctor(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "doctor", kAbout);
  auto flags = std::make_shared<Flags>();
  sub->add_option("--daemon", flags->daemon, "Client socket of the daemon")->type_name(kSocketValue);
  CLI::Option* pid = sub->add_option("--pid", flags->pid, "Examine this running process instead")
                         ->check(CLI::PositiveNumber);
  sub->add_flag("--cluster", flags->cluster, "Examine the aggregator, its daemons and their ranks instead")
      ->excludes(pid);
  sub->add_option("--job", flags->job, "With --cluster: only this job's ranks")->type_name(kJobValue);
  sub->add_option("--format", flags->format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  AddAggregatorFlags(*sub, flags->aggregator);
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Doctor(*flags); }; });
}

}  // namespace lockstep::cli
