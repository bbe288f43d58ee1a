#include "history/database/postgresql_database.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log/clean_text.h"
#include "base/rpc/status_macros.h"

namespace lockstep::history {
namespace {

// The number of the advisory lock that writers hold. It is "lockstep" in ASCII.
constexpr int64_t kWritersLock = 0x6C6F636B73746570;

// libpq prints notices on stderr otherwise.
void DropNotice(void*, const char*) {}

// The server's message may hold names from anywhere.
std::string ServerText(const char* message) {
  return CleanText(std::string(absl::StripAsciiWhitespace(message == nullptr ? "" : message)), 500);
}

std::string_view OptionValue(const LibpqOption* options, std::string_view keyword) {
  for (const LibpqOption* option = options; option->keyword != nullptr; ++option) {
    if (keyword == option->keyword) return option->value == nullptr ? "" : option->value;
  }
  return "";
}

// libpq's own message about a URL may repeat its password, so it is not shown.
absl::Status CheckUrl(const Libpq& pq, const std::string& url) {
  char* error = nullptr;
  LibpqOption* options = pq.conninfoParse(url.c_str(), &error);
  if (error != nullptr) pq.freemem(error);
  if (options == nullptr) {
    return absl::InvalidArgumentError(
        "--db: libpq cannot read this URL; its form is postgresql://USER@HOST:PORT/DATABASE?NAME=VALUE, and "
        "special characters are %XX");
  }
  const bool secret =
      !OptionValue(options, "password").empty() || !OptionValue(options, "sslpassword").empty();
  pq.conninfoFree(options);
  if (!secret) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--db: the URL has a password, which other users can see in the list of processes: put it into "
      "~/.pgpass or the "
      "file that PGPASSFILE names, and remove it from the URL");
}

std::string NameOfConnection(const Libpq& pq, pg_conn* connection) {
  LibpqOption* options = pq.conninfo(connection);
  if (options == nullptr) return "postgresql://";
  std::string name = absl::StrCat("postgresql://", ServerText(OptionValue(options, "host").data()), ":",
                                  ServerText(OptionValue(options, "port").data()), "/",
                                  ServerText(OptionValue(options, "dbname").data()));
  pq.conninfoFree(options);
  return name;
}

uint32_t LibpqTypeOf(const Value& value) {
  return std::holds_alternative<int64_t>(value)       ? kLibpqInt8
         : std::holds_alternative<double>(value)      ? kLibpqFloat8
         : std::holds_alternative<std::string>(value) ? kLibpqText
                                                      : kLibpqUnknown;
}

// Returns the value as libpq sends it, nullopt for null. A number reads back as the same number.
std::optional<std::string> LibpqTextOf(const Value& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return absl::StrCat(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* real = std::get_if<double>(&value)) {
    char digits[48];
    return std::string(digits, std::to_chars(digits, digits + sizeof digits, *real).ptr);
  }
  return std::nullopt;
}

}  // namespace

bool IsPostgresqlUrl(const std::string& place) {
  return place.starts_with("postgresql://") || place.starts_with("postgres://");
}

absl::StatusOr<std::unique_ptr<Database>> PostgresqlDatabase::Open(const Libpq& pq, const std::string& url,
                                                                   Purpose purpose) {
  LOCKSTEP_RETURN_IF_ERROR(CheckUrl(pq, url));
  // Words after the URL replace what it says, words before it do not.
  const char* keywords[] = {"connect_timeout", "fallback_application_name", "dbname", "client_encoding",
                            nullptr};
  const char* values[] = {"10", "lockstep", url.c_str(), "UTF8", nullptr};
  Connection connection(pq.connectdbParams(keywords, values, 1), Close{pq.finish});
  if (connection == nullptr) return absl::ResourceExhaustedError("no memory for a connection to PostgreSQL");
  const std::string name = NameOfConnection(pq, connection.get());
  if (pq.status(connection.get()) != kLibpqConnected) {
    return absl::UnavailableError(
        absl::StrCat("cannot connect to ", name, ": ", ServerText(pq.errorMessage(connection.get()))));
  }
  pq.setNoticeProcessor(connection.get(), &DropNotice, nullptr);
  std::unique_ptr<PostgresqlDatabase> database(new PostgresqlDatabase(pq, std::move(connection), name));
  LOCKSTEP_RETURN_IF_ERROR(database->UseSchema(purpose));
  return std::unique_ptr<Database>(std::move(database));
}

absl::Status PostgresqlDatabase::UseSchema(Purpose purpose) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Row> found,
                            Run("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = 'lockstep'", {}));
  if (found.empty() && purpose == Purpose::kRead) return NoHistoryIn(name_);
  if (found.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(Writing writing, Writing::Begin(*this));
    LOCKSTEP_RETURN_IF_ERROR(Run("CREATE SCHEMA IF NOT EXISTS lockstep", {}).status());
    LOCKSTEP_RETURN_IF_ERROR(writing.Commit());
  }
  LOCKSTEP_RETURN_IF_ERROR(Run("SET search_path TO lockstep", {}).status());
  if (purpose == Purpose::kWrite) return absl::OkStatus();
  return Run("SET default_transaction_read_only TO on", {}).status();
}

PostgresqlDatabase::Result PostgresqlDatabase::Send(const std::string& sql,
                                                    const std::vector<Value>& values) const {
  std::vector<uint32_t> types;
  std::vector<std::optional<std::string>> texts;
  std::vector<const char*> pointers;
  for (const Value& value : values) {
    types.push_back(LibpqTypeOf(value));
    texts.push_back(LibpqTextOf(value));
  }
  for (const std::optional<std::string>& text : texts) pointers.push_back(text ? text->c_str() : nullptr);
  return Result(pq_.execParams(connection_.get(), sql.c_str(), static_cast<int>(values.size()), types.data(),
                               pointers.data(), nullptr, nullptr, kLibpqTextFormat),
                Clear{pq_.clear});
}

Value PostgresqlDatabase::Cell(const Result& result, int row, int column) const {
  if (pq_.getisnull(result.get(), row, column) != 0) return std::monostate();
  const std::string text(pq_.getvalue(result.get(), row, column),
                         static_cast<size_t>(pq_.getlength(result.get(), row, column)));
  int64_t number = 0;
  double real = 0;
  switch (pq_.ftype(result.get(), column)) {
    case kLibpqInt2:
    case kLibpqInt4:
    case kLibpqInt8:
      return absl::SimpleAtoi(text, &number) ? Value(number) : Value(text);
    case kLibpqFloat4:
    case kLibpqFloat8:
    case kLibpqNumeric:
      return absl::SimpleAtod(text, &real) ? Value(real) : Value(text);
    default:
      return text;
  }
}

absl::StatusOr<std::vector<Row>> PostgresqlDatabase::Run(const std::string& sql,
                                                         const std::vector<Value>& values) {
  const Result result = Send(sql, values);
  const int status = result == nullptr ? -1 : pq_.resultStatus(result.get());
  if (status != kLibpqRows && status != kLibpqCommandDone) {
    const std::string reason = ServerText(result == nullptr ? pq_.errorMessage(connection_.get())
                                                            : pq_.resultErrorMessage(result.get()));
    if (pq_.status(connection_.get()) != kLibpqConnected)
      return absl::UnavailableError(absl::StrCat("the connection to ", name_, " has ended: ", reason));
    return absl::InternalError(absl::StrCat(name_, ": a statement failed: ", reason));
  }
  std::vector<Row> rows(static_cast<size_t>(pq_.ntuples(result.get())));
  for (size_t row = 0; row < rows.size(); ++row) {
    for (int column = 0; column < pq_.nfields(result.get()); ++column)
      rows[row].push_back(Cell(result, static_cast<int>(row), column));
  }
  return rows;
}

// Two programs that add the same capture, or that create the tables, must not meet.
absl::Status PostgresqlDatabase::BeginWriting() {
  LOCKSTEP_RETURN_IF_ERROR(Run("BEGIN", {}).status());
  return Run("SELECT pg_catalog.pg_advisory_xact_lock($1)", {kWritersLock}).status();
}

absl::Status PostgresqlDatabase::Commit() { return Run("COMMIT", {}).status(); }
void PostgresqlDatabase::Rollback() { Run("ROLLBACK", {}).status().IgnoreError(); }

absl::StatusOr<std::vector<std::string>> PostgresqlDatabase::Tables() {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<Row> rows,
      Run("SELECT tablename::text FROM pg_catalog.pg_tables WHERE schemaname = 'lockstep' ORDER BY tablename",
          {}));
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(std::get<std::string>(row[0]));
  return names;
}

}  // namespace lockstep::history
