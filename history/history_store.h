// HistoryStore adds captures to a history, finds them, and removes old ones.
#ifndef LOCKSTEP_HISTORY_HISTORY_STORE_H_
#define LOCKSTEP_HISTORY_HISTORY_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "history/database/database.h"
#include "history/model.h"
#include "history/tables.h"

namespace lockstep::history {

struct CaptureFilter {
  std::optional<std::string> job;
  std::optional<JobTime> since;   // captured then or later
  std::optional<JobTime> before;  // captured earlier
};

// A capture without its steps and ranks: all that a trend needs.
struct CaptureContext {
  CaptureHead head;
  std::vector<Label> labels;
  std::vector<std::string> hosts;    // sorted, each once
  std::vector<std::string> devices;  // models, sorted, each once
  std::vector<Finding> findings;
};

// A capture is removed if a rule that is set says so.
struct PruneRule {
  std::optional<JobTime> before;       // captured earlier than this
  std::optional<int64_t> keep_newest;  // captures to keep of each job
  std::optional<std::string> job;      // only of this job
};

enum class Added : uint8_t { kNew, kReplaced };

// One thread. Errors are those of Database.
class HistoryStore {
 public:
  // Applies missing migrations if `purpose` is kWrite. Fails as PrepareSchema().
  static absl::StatusOr<HistoryStore> Open(std::unique_ptr<Database> database, Purpose purpose,
                                           const Clock& clock);

  // Adds the capture, all or nothing. A capture of the same id is replaced.
  absl::StatusOr<Added> Add(const CaptureSummary& summary);

  // Returns the captures of the filter, oldest first.
  absl::StatusOr<std::vector<CaptureHead>> Captures(const CaptureFilter& filter);
  absl::StatusOr<std::vector<CaptureContext>> Contexts(const CaptureFilter& filter);
  // kNotFound: the history does not have this id.
  absl::StatusOr<CaptureSummary> Capture(const std::string& id);
  // Returns the id of the capture that `name` is or begins. kNotFound: none; kInvalidArgument: several.
  absl::StatusOr<std::string> FindId(const std::string& name);
  absl::StatusOr<bool> HasJob(const std::string& job);

  // Returns the captures that a rule removes, oldest first. Remove() removes them, all or none.
  absl::StatusOr<std::vector<CaptureHead>> Outdated(const PruneRule& rule);
  absl::Status Remove(const std::vector<CaptureHead>& captures);

  // Returns the rows of a table for the captures of [from, to), in the table's order.
  absl::StatusOr<std::vector<Row>> Rows(const HistoryTable& table, JobTime from, JobTime to);

  const std::string& name() const { return database_->name(); }

 private:
  explicit HistoryStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  absl::Status Insert(const std::string& table, const std::vector<Row>& rows);
  absl::StatusOr<std::vector<Row>> Select(const std::string& columns, const std::string& tables,
                                          const CaptureFilter& filter, const std::string& order);
  absl::StatusOr<std::vector<Row>> RowsOfCapture(const std::string& table, const std::string& id);
  absl::Status AddContexts(const CaptureFilter& filter, std::map<std::string, CaptureContext*>& by_id);

  std::unique_ptr<Database> database_;
};

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_HISTORY_STORE_H_
