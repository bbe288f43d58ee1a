#include "history/database/database.h"

#include "absl/strings/str_cat.h"
#include "base/rpc/status_macros.h"

namespace lockstep::history {

absl::Status NoHistoryIn(const std::string& place) {
  return absl::NotFoundError(
      absl::StrCat(place, " has no history yet: `lockstep history add CAPTURE` creates it"));
}

absl::StatusOr<Writing> Writing::Begin(Database& database) {
  LOCKSTEP_RETURN_IF_ERROR(database.BeginWriting());
  return Writing(database);
}

Writing::~Writing() {
  if (database_ != nullptr) database_->Rollback();
}

absl::Status Writing::Commit() {
  LOCKSTEP_RETURN_IF_ERROR(database_->Commit());
  database_ = nullptr;
  return absl::OkStatus();
}

}  // namespace lockstep::history
