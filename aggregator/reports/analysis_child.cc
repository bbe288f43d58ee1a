#include "aggregator/reports/analysis_child.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "aggregator/live/sample.h"
#include "aggregator/reports/analysis.h"
#include "aggregator/reports/analysis_limits.h"
#include "aggregator/reports/child_process.h"
#include "aggregator/reports/rows_check.h"
#include "aggregator/reports/sandbox.h"
#include "base/files/file_sink.h"
#include "base/parallel.h"
#include "base/rpc/status_macros.h"
#include "lockstep/v1/analysis.pb.h"

namespace lockstep::aggregator {
namespace {

void ExitWithoutMemory() { ::_exit(kOutOfMemory); }

unsigned Threads() { return std::min(ThreadCount(0), kAnalysisThreads); }

// The limit of the process counts address space, which the threads' stacks take without using it.
ReportResources ResourcesOf(const v1::AnalysisOrder& order) {
  constexpr uint64_t kStackBytes = uint64_t{8} << 20;
  const uint64_t stacks = std::min(order.memory_bytes() / 4, Threads() * kStackBytes);
  return {.threads = Threads(), .memory_bytes = order.memory_bytes() - stacks};
}

void FillReport(const ReportFacts& facts, v1::AnalysedReport& report) {
  for (const IncompleteReason& rank : facts.incomplete) {
    v1::AnalysedReport::Incomplete& row = *report.add_incomplete();
    row.set_rank(rank.rank.value());
    row.set_reason(rank.reason);
  }
  report.set_stragglers(facts.stragglers);
  if (facts.step_ns) report.set_step_ns(*facts.step_ns);
  if (facts.ratio) report.set_ratio(*facts.ratio);
  if (facts.lost_ns_per_step) report.set_lost_ns_per_step(*facts.lost_ns_per_step);
}

void FillSample(Summary summary, v1::AnalysedSample& sample) {
  *sample.mutable_sample() = std::move(summary.sample);
  sample.set_whole_steps(summary.steps.whole);
  sample.set_partial_steps(summary.steps.partial);
  if (summary.steps.length_ns) sample.set_step_ns(*summary.steps.length_ns);
}

absl::Status MakeReport(const v1::AnalysisOrder& order, v1::AnalysedReport& report) {
  std::vector<std::unique_ptr<ByteSink>> sinks;
  std::vector<const char*> names = {kReportJson, kReportText};
  const bool page = order.kind() == v1::AnalysisOrder::REPORT_WITH_PAGE;
  if (page) names.push_back(kReportPage);
  for (const char* name : names) sinks.push_back(FdSink(kFirstFileFd + static_cast<int>(sinks.size()), name));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const ReportFacts facts,
      AnalyseCapture(order.folder(), ResourcesOf(order),
                     {.json = *sinks[0], .text = *sinks[1], .page = page ? sinks[2].get() : nullptr}));
  FillReport(facts, report);
  return absl::OkStatus();
}

absl::Status Analyse(const v1::AnalysisOrder& order, v1::AnalysisResult& result) {
  LOCKSTEP_RETURN_IF_ERROR(CheckRows(order.folder(), order.rows()));
  if (order.kind() != v1::AnalysisOrder::SAMPLE) return MakeReport(order, *result.mutable_report());
  LOCKSTEP_ASSIGN_OR_RETURN(Summary summary, ReadSample(order.folder(), Threads()));
  FillSample(std::move(summary), *result.mutable_sample());
  return absl::OkStatus();
}

// Turns exceptions of the libraries into errors. Memory never throws, because the process ends without it.
absl::Status AnalyseSafely(const v1::AnalysisOrder& order, v1::AnalysisResult& result) {
  try {
    return Analyse(order, result);
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("the analysis failed: ", e.what()));
  }
}

std::optional<v1::AnalysisOrder> ReadOrder() {
  std::string bytes;
  char part[4096];
  while (true) {
    const ssize_t n = ::read(kOrderFd, part, sizeof(part));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    bytes.append(part, static_cast<size_t>(n));
  }
  v1::AnalysisOrder order;
  if (!order.ParseFromString(bytes) || order.kind() == v1::AnalysisOrder::KIND_UNSPECIFIED)
    return std::nullopt;
  return order;
}

bool WriteResult(const v1::AnalysisResult& result) {
  const std::string bytes = result.SerializeAsString();
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(kAnswerFd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

bool IsAnalysisChild(int argc, char** argv) {
  return argc >= 2 && std::strcmp(argv[1], kAnalysisChildWord) == 0;
}

int AnalysisChildMain(const std::string& version) {
  std::set_new_handler(ExitWithoutMemory);
  const std::optional<v1::AnalysisOrder> order = ReadOrder();
  if (!order) return 1;
  v1::AnalysisResult result;
  absl::Status status;
  if (order->version() != version) {
    status =
        absl::FailedPreconditionError(absl::StrCat("the program was replaced by ", version, " while ",
                                                   order->version(), " runs: restart lockstep-aggregator"));
  } else {
    const SandboxLimits limits = {order->memory_bytes(), order->cpu_seconds(), kMostReportBytes};
    if (!LimitProcess(order->parent_pid(), limits)) return 1;
    for (std::string& name : EnterSandbox(order->folder() + "/records"))
      result.add_missing_protections(std::move(name));
    status = AnalyseSafely(*order, result);
  }
  if (!status.ok()) {
    result.mutable_failure()->set_code(static_cast<int32_t>(status.code()));
    result.mutable_failure()->set_message(std::string(status.message()));
  }
  // Destructors would only take time.
  ::_exit(WriteResult(result) ? 0 : 1);
}

}  // namespace lockstep::aggregator
