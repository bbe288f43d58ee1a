// lockstep doctor: what works here and what does not, with the fix.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/daemon_socket.h"
#include "cli/siblings.h"

namespace lockstep::cli {
namespace {

constexpr char kAbout[] =
    "Say what works on this machine and what does not, with the fix. Changes nothing.\n"
    "\n"
    "Example:\n"
    "  lockstep doctor\n";

enum class Verdict { kWorks, kNote, kBroken };

struct Finding {
  Verdict verdict;
  std::string text;
};

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
        {Verdict::kNote, absl::StrCat("daemon: none answers, `lockstep run` will start one (", why, ")")});
  }
}

// The client finds CUPTI in the process it is loaded into; here it can only be looked for where the system
// has it.
Finding Cupti() {
  for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}) {
    if (void* library = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {
      ::dlclose(library);
      return {Verdict::kWorks, absl::StrCat("CUPTI: ", name)};
    }
  }
  for (const char* path :
       {"/usr/local/cuda/extras/CUPTI/lib64/libcupti.so", "/usr/local/cuda/lib64/libcupti.so"}) {
    if (::access(path, R_OK) == 0) return {Verdict::kWorks, absl::StrCat("CUPTI: ", path)};
  }
  return {Verdict::kNote,
          "CUPTI: not among the system's libraries; a PyTorch process brings its own, else set "
          "LOCKSTEP_CUPTI_LIB to its path"};
}

Finding Gpu() {
  if (::access("/dev/nvidiactl", R_OK | W_OK) == 0)
    return {Verdict::kWorks, "GPU: /dev/nvidiactl is there and may be used"};
  if (::access("/dev/nvidiactl", F_OK) == 0)
    return {Verdict::kBroken, "GPU: /dev/nvidiactl is there and may not be used: ask for access to it"};
  return {Verdict::kNote,
          "GPU: none on this machine; captures work on simulated ranks, and analyze works everywhere"};
}

void AddVariables(std::vector<Finding>& findings) {
  for (const char* name : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || value[0] == '\0' ||
        std::string(value).find("liblockstep_client") != std::string::npos)
      continue;
    findings.push_back({Verdict::kBroken, absl::StrCat(name, ": is set to ", value,
                                                       ", and `lockstep run` leaves it alone: unset it")});
  }
}

ExitCode Doctor(const std::string& daemon) {
  const Siblings siblings = Siblings::OfThisProgram();
  std::vector<Finding> findings;
  findings.push_back(FromStatus("client library", siblings.ClientLibrary()));
  findings.push_back(FromStatus("lockstepd", siblings.Program("lockstepd")));
  findings.push_back(FromStatus("lockstep-aggregator", siblings.Program("lockstep-aggregator")));
  AddDaemon(daemon, findings);
  findings.push_back(Gpu());
  findings.push_back(Cupti());
  AddVariables(findings);
  bool broken = false;
  for (const Finding& finding : findings) {
    broken |= finding.verdict == Verdict::kBroken;
    const char* mark = finding.verdict == Verdict::kWorks  ? "ok    "
                       : finding.verdict == Verdict::kNote ? "note  "
                                                           : "broken";
    std::printf("%s  %s\n", mark, finding.text.c_str());
  }
  return broken ? ExitCode::kFailed : ExitCode::kDone;
}

}  // namespace

void AddDoctor(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "doctor", kAbout);
  auto daemon = std::make_shared<std::string>();
  sub->add_option("--daemon", *daemon, "The client socket of the daemon to look for");
  sub->callback([daemon, &chosen] { chosen.action = [daemon] { return Doctor(*daemon); }; });
}

}  // namespace lockstep::cli
