// Makes the report's rows about the whole job: what all ranks lose alike, and what the capture cannot show.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "analysis/explain/causes.h"
#include "analysis/explain/diagnosis.h"
#include "report/actions.h"
#include "report/first_line.h"
#include "report/rows.h"
#include "report/text_layout.h"

namespace lockstep::report {
namespace {

using analysis::LengthText;
using analysis::SharedLoss;
using analysis::SharedLossKind;

std::string Seen(const SharedLoss& loss) {
  switch (loss.kind) {
    case SharedLossKind::kInput:
      return "the GPUs idle while the hosts are in the data loader";
    case SharedLossKind::kHostLaunch:
      return "the GPUs idle while the hosts work, because the next kernel is not launched yet";
    case SharedLossKind::kExposedTransfer:
      return "the GPUs transfer data with no kernel beside it";
    case SharedLossKind::kExposedWait:
      return "the ranks wait for each other in turns, beyond what the slow ones cost";
    case SharedLossKind::kPipelineBubble:
      return "the stages wait for each other's messages, beyond what the slow ranks cost";
    case SharedLossKind::kCopies:
      return "the GPUs copy with no kernel beside it";
    case SharedLossKind::kIdleOther:
      return "the GPUs idle";
  }
  return "";
}

// Empty if the kernels of all graphs were recorded.
std::string UnrecordedGraphs(const capture::Capture& capture) {
  uint64_t launches = 0;
  std::vector<RankId> ranks;
  for (const capture::RankData& rank : capture.ranks) {
    if (rank.unseen_graph_launches == 0) continue;
    launches += rank.unseen_graph_launches;
    ranks.push_back(rank.rank);
  }
  if (ranks.empty()) return "";
  return absl::StrFormat(
      "the kernels of %d launches of CUDA graphs on %s were not recorded, because the graphs are older than "
      "CUPTI",
      launches, RankList(ranks, 16));
}

// The way to match communication across ranks.
std::string HowToMatch(const capture::Capture& capture) {
  const std::vector<RankId>& missing = capture.missing_ranks;
  if (!missing.empty() && capture.live)
    return "capture all ranks: nothing was recorded of " + RankList(missing, 3);
  if (!missing.empty())
    return "find the files of " + RankList(missing, 3) +
           " and analyze them together with these (lockstep analyze FOLDER). If there are none, capture "
           "again";
  return capture.live
             ? "load NCCL's profiler plugin: start the job with lockstep run"
             : "capture again with the collectives' arguments (PyTorch: record_shapes=True), or with "
               "Lockstep";
}

}  // namespace

std::vector<SharedLossRow> MakeSharedLossRows(const std::vector<SharedLoss>& losses, size_t ranks) {
  std::vector<SharedLossRow> rows;
  for (const SharedLoss& loss : losses) {
    SharedLossRow row{.kind = std::string(analysis::SharedLossKindName(loss.kind)),
                      .lost_ns_per_step = loss.lost_ns,
                      .share_of_step = loss.share};
    const std::string least = LengthText(loss.least_ns), most = LengthText(loss.most_ns);
    row.evidence.push_back(Seen(loss) + ": " + (least == most ? most : least + " to " + most) +
                           (ranks == 1 ? " per step" : " per step on each rank"));
    if (loss.silent_ns > 0)
      row.evidence.push_back(absl::StrFormat(
          "for %s of it the hosts did nothing that was recorded: they may wait for input, storage or a lock",
          LengthText(loss.silent_ns)));
    row.action = SharedLossAction(loss.kind);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<NotJudgedRow> MakeNotJudgedRows(const RowInput& in, const std::vector<SharedLoss>& losses) {
  std::vector<NotJudgedRow> rows;
  const size_t steps = in.steps.count();
  const double matched = in.matches.MatchedFraction().value_or(1);
  if (const std::string graphs = UnrecordedGraphs(in.capture); !graphs.empty()) {
    rows.push_back({kEverything, graphs, "start the job with LOCKSTEP_PREPARE=always"});
  } else if (in.diagnosis.step_ns <= 0) {
    rows.push_back({kEverything, "no step was recorded whole", "capture again, for longer"});
  } else if (steps < analysis::kLeastSteps) {
    rows.push_back({kEverything,
                    absl::StrFormat("%d step%s recorded whole, and a verdict needs %d", steps,
                                    steps == 1 ? " was" : "s were", analysis::kLeastSteps),
                    absl::StrFormat("capture at least %d whole steps", analysis::kLeastSteps)});
  } else if (matched < analysis::kMatchedForVerdict) {
    rows.push_back(
        {kEverything,
         absl::StrFormat("%.0f%% of the communication could be matched across ranks", 100 * matched),
         HowToMatch(in.capture)});
  }
  for (const analysis::NotJudged& n : in.diagnosis.not_judged)
    rows.push_back({n.what, n.why, n.what_would_tell});
  for (const SharedLoss& loss : losses) {
    if (loss.silent_ns < analysis::kLeastSharedLoss * in.diagnosis.step_ns) continue;
    rows.push_back({"input",
                    absl::StrFormat("the hosts do nothing that was recorded for %s per step",
                                    LengthText(loss.silent_ns)),
                    "record NVTX ranges or operators (--activities nvtx, or --via kineto)"});
  }
  return rows;
}

}  // namespace lockstep::report
