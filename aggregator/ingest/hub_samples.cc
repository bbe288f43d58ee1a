// Samples: captures of which nothing is kept, and that give way to others.
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aggregator/ingest/hub.h"
#include "base/rpc/status_macros.h"

namespace lockstep::ingest {

absl::StatusOr<v1::TraceFinished> Hub::Sample(const v1::TraceRequest& request, const Caller& caller,
                                              const CaptureSession::Emit& emit, const After& after) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::shared_ptr<CaptureSession> session,
                            Begin(request, caller, Purpose::kSample));
  const std::string folder = absl::StrCat(options_.samples_folder, "/", session->id());
  std::string taken;
  v1::TraceFinished finished = session->Run([&](const v1::TraceEvent& event) {
    // Half a job tells nothing, and the other half is better left alone too.
    if (event.rank().state().refusal() == v1::RankState::CAPTURED && taken.empty()) {
      taken = absl::StrCat("rank ", event.rank().rank(), ": ", event.rank().state().text());
      session->Abandon();
    }
    emit(event);
  });
  if (taken.empty()) after(folder, finished);
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error)
    options_.log(LogLevel::kWarning, "sample_not_removed", {{"folder", folder}, {"reason", error.message()}});
  {
    std::lock_guard<std::mutex> lock(mutex_);
    sessions_.erase(session->id());
    ++counts_.samples[finished.outcome()];
    changed_.notify_all();
  }
  if (!taken.empty()) return absl::FailedPreconditionError(taken);
  return finished;
}

}  // namespace lockstep::ingest
