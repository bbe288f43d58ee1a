// TraceSession runs one capture for `lockstep trace`, from the request to the folder.
#ifndef LOCKSTEP_CLI_COMMANDS_TRACE_SESSION_H_
#define LOCKSTEP_CLI_COMMANDS_TRACE_SESSION_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/time.h"
#include "cli/common/aggregator_client.h"
#include "cli/common/capture_folder.h"
#include "cli/common/exit_code.h"
#include "cli/common/output_name.h"
#include "cli/common/progress.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::cli {

struct TraceOutput {
  std::string pattern;  // -o, with tokens; empty: the default name
  Overwrite overwrite = Overwrite::kNever;
  std::vector<const ExportFormat*> formats = *ParseFormats("kineto,perfetto");
  bool exit_code = false;
  uint64_t memory_bytes = 0;  // for the analysis, with the program; 0: no limit
  // Time to wait for an aggregator that restarts, or is stopped, during the capture.
  Nanos patience = Nanos::Seconds(45);
  // Called once the capture has started, with its folder.
  std::function<void(const std::string& folder)> accepted = [](const std::string&) {};
};

// On a terminal, one line shows the progress, and only ranks with a problem have lines of their own.
// Elsewhere each state of each rank has a line, for logs.
//
// The report is printed as soon as the records are analysed. A permanent aggregator analyses them at the same
// time, and the traces and the page, which take longer, are written after the report.
class TraceSession {
 public:
  TraceSession(AggregatorClient& client, TraceOutput output);
  ~TraceSession();

  // Runs the capture, writes the folder and prints the report on stdout.
  ExitCode Run(const v1::TraceRequest& request);
  // Ends the capture and keeps its records. A second call gives up at once. From another thread.
  void Interrupt();

 private:
  struct RankLine {
    v1::RankState::State state = v1::RankState::STATE_UNSPECIFIED;
    std::string words;
  };
  struct Analysed;  // the capture, its analysis, and the report's exit code

  // Waits for a moment before the next attempt to reach a lost aggregator. Returns false if it has been away
  // for too long, or the user gave up.
  bool WaitForAggregator();
  // Follows the capture again after its aggregator was away. Returns the last error.
  absl::Status FollowAgain(absl::Status lost);
  void OnEvent(const v1::TraceEvent& event);
  void OnAccepted(const v1::TraceAccepted& accepted);
  void OnRank(const v1::RankProgress& rank);
  void OnProgress(const v1::TraceProgress& progress);
  void ShowProgress();
  // The records are complete, and the aggregator is analysing them. Prints the report if they can be fetched
  // now.
  void OnAnalysing();
  absl::Status WriteFolder(ExitCode& code);
  // Fetches once. kUnavailable: the aggregator is lost.
  absl::Status FetchOnce(CaptureFolder& folder);
  // Fetches again, from the first byte, if the aggregator is lost meanwhile.
  absl::Status FetchRecords(CaptureFolder& folder);
  // Analyses the fetched records and prints the report.
  absl::StatusOr<std::unique_ptr<Analysed>> Analyse(const CaptureFolder& folder);
  absl::Status FillFolder(CaptureFolder& folder, const Analysed& analysed, ExitCode& code);

  AggregatorClient& client_;
  const TraceOutput output_;
  Progress progress_;  // thread-safe
  Mutex mutex_;
  std::string capture_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> interrupts_{0};

  // thread: Run's
  std::string folder_;
  std::string waits_for_;  // the trigger, in words
  bool start_reported_ = false;
  std::optional<MonoTime> wait_until_;                         // end of the wait for a lost aggregator
  std::string phase_;                                          // of the progress line; empty: none yet
  std::map<std::pair<std::string, int32_t>, RankLine> ranks_;  // by host and pid
  absl::Status refused_;                                       // why the folder cannot be written
  bool began_ = false;                                         // the window has been open
  bool tried_early_ = false;                                   // OnAnalysing has run
  std::optional<CaptureFolder> received_;                      // has all records once `analysed_` is set
  absl::StatusOr<std::unique_ptr<Analysed>> analysed_;
  v1::TraceFinished finished_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMANDS_TRACE_SESSION_H_
