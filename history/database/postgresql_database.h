// PostgresqlDatabase keeps the history of many users in a PostgreSQL server, in the schema `lockstep` of a
// database.
#ifndef LOCKSTEP_HISTORY_DATABASE_POSTGRESQL_DATABASE_H_
#define LOCKSTEP_HISTORY_DATABASE_POSTGRESQL_DATABASE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "history/database/database.h"
#include "history/database/libpq.h"

namespace lockstep::history {

// True for postgresql:// and postgres://.
bool IsPostgresqlUrl(const std::string& place);

class PostgresqlDatabase final : public Database {
 public:
  // Connects to the server of the URL within 10 s, or the URL's connect_timeout. libpq takes what the URL
  // leaves out from its variables and files: PGHOST, PGSERVICE, PGPASSFILE. With kWrite, the schema
  // `lockstep` is created if it is missing.
  //
  // kInvalidArgument: the URL cannot be read, or has a password. Other users see a password in the list of
  // processes. kNotFound: the schema is missing, with kRead. kUnavailable: the server does not answer.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const Libpq& pq, const std::string& url,
                                                        Purpose purpose);

  absl::StatusOr<std::vector<Row>> Run(const std::string& sql, const std::vector<Value>& values) override;
  absl::Status BeginWriting() override;
  absl::Status Commit() override;
  void Rollback() override;
  absl::StatusOr<std::vector<std::string>> Tables() override;
  const std::string& name() const override { return name_; }

 private:
  struct Close {
    void (*finish)(pg_conn*);
    void operator()(pg_conn* connection) const { finish(connection); }
  };
  using Connection = std::unique_ptr<pg_conn, Close>;
  struct Clear {
    void (*clear)(pg_result*);
    void operator()(pg_result* result) const { clear(result); }
  };
  using Result = std::unique_ptr<pg_result, Clear>;

  PostgresqlDatabase(const Libpq& pq, Connection connection, std::string name)
      : pq_(pq), connection_(std::move(connection)), name_(std::move(name)) {}
  absl::Status UseSchema(Purpose purpose);
  Result Send(const std::string& sql, const std::vector<Value>& values) const;
  Value Cell(const Result& result, int row, int column) const;

  const Libpq pq_;
  const Connection connection_;
  const std::string name_;
};

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_DATABASE_POSTGRESQL_DATABASE_H_
