// SqliteDatabase keeps a history in a file of this user.
//
// It uses a rollback journal, not a write-ahead log: a log needs memory that all writers share, which network
// file systems lack. Home folders of clusters are often on one.
#ifndef LOCKSTEP_HISTORY_DATABASE_SQLITE_DATABASE_H_
#define LOCKSTEP_HISTORY_DATABASE_SQLITE_DATABASE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sqlite/sqlite_handle.h"
#include "base/time.h"
#include "history/database/database.h"

namespace lockstep::history {

class SqliteDatabase final : public Database {
 public:
  // Opens the file. With kWrite, a missing file is created with mode 0600, and its folders with mode 0700. A
  // statement waits up to `patience` for other writers.
  //
  // With kRead, a missing file is kNotFound. A file that is not an SQLite database is kInvalidArgument. Other
  // errors have the system's reason.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path, Purpose purpose,
                                                        Nanos patience = Nanos::Seconds(30));

  absl::StatusOr<std::vector<Row>> Run(const std::string& sql, const std::vector<Value>& values) override;
  absl::Status BeginWriting() override;
  absl::Status Commit() override;
  void Rollback() override;
  absl::StatusOr<std::vector<std::string>> Tables() override;
  const std::string& name() const override { return path_; }

 private:
  SqliteDatabase(std::string path, sqlite::SqliteHandle handle)
      : path_(std::move(path)), handle_(std::move(handle)) {}
  absl::Status Configure(Purpose purpose, Nanos patience);
  absl::Status Execute(const std::string& sql);
  absl::Status Error(const char* what) const;

  const std::string path_;
  const sqlite::SqliteHandle handle_;
};

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_DATABASE_SQLITE_DATABASE_H_
