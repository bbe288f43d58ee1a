// Tests the opening of databases, and their errors. Tests of statements are in history_store_test.cc.
#include <sys/stat.h>

#include <fstream>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "history/database/libpq.h"
#include "history/database/open_database.h"
#include "history/database/postgresql_database.h"
#include "history/database/sqlite_database.h"
#include "history/history_fixture.h"

#if __has_include(<postgresql/libpq-fe.h>)
#define LOCKSTEP_HAS_LIBPQ_HEADER 1
#include <postgresql/libpq-fe.h>
#endif

namespace lockstep::history {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DatabasesTest : public HistoryTest {};

std::string PlaceWith(const std::string& given, const std::map<std::string, std::string>& variables) {
  const auto place = HistoryPlace(given, [&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  return place.ok() ? *place : std::string(place.status().message());
}

TEST_F(DatabasesTest, ThePlaceIsTheFlagThenTheVariableThenTheDataFolder) {
  EXPECT_EQ(PlaceWith("x.db", {{"LOCKSTEP_HISTORY", "y.db"}, {"HOME", "/h"}}), "x.db");
  EXPECT_EQ(PlaceWith("", {{"LOCKSTEP_HISTORY", "y.db"}, {"HOME", "/h"}}), "y.db");
  EXPECT_EQ(PlaceWith("", {{"LOCKSTEP_HISTORY", ""}, {"XDG_DATA_HOME", "/d"}, {"HOME", "/h"}}),
            "/d/lockstep/history.db");
  EXPECT_EQ(PlaceWith("", {{"XDG_DATA_HOME", "relative"}, {"HOME", "/h"}}),
            "/h/.local/share/lockstep/history.db");
  EXPECT_THAT(PlaceWith("", {}), HasSubstr("--db PATH"));
}

TEST_F(DatabasesTest, ANewFileIsClosedToOthers) {
  const std::string path = folder_ + "/data/lockstep/history.db";
  const mode_t old = ::umask(0);
  ASSERT_TRUE(SqliteDatabase::Open(path, Purpose::kWrite).ok());
  ::umask(old);
  struct stat info = {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat((folder_ + "/data").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(DatabasesTest, AReaderCreatesNothing) {
  const std::string path = folder_ + "/data/history.db";
  EXPECT_EQ(SqliteDatabase::Open(path, Purpose::kRead).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/data"));
}

TEST_F(DatabasesTest, OtherFilesAreRefused) {
  const std::string path = folder_ + "/notes.txt";
  std::ofstream(path) << std::string(5000, 'x');
  const absl::Status status = SqliteDatabase::Open(path, Purpose::kWrite).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(SqliteDatabase::Open(folder_, Purpose::kRead).ok(), false);
  EXPECT_EQ(std::filesystem::file_size(path), 5000u);
}

TEST_F(DatabasesTest, AWriterThatTakesTooLongIsNamed) {
  const std::string path = folder_ + "/history.db";
  auto first = SqliteDatabase::Open(path, Purpose::kWrite),
       second = SqliteDatabase::Open(path, Purpose::kWrite, Nanos::Millis(1));
  const auto writing = Writing::Begin(**first);
  ASSERT_TRUE(writing.ok());
  const absl::Status status = Writing::Begin(**second).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("try again"));
}

TEST_F(DatabasesTest, WithoutCommitNothingIsWritten) {
  const std::unique_ptr<Database> database = Opened();
  {
    const auto writing = Writing::Begin(*database);
    ASSERT_TRUE(database->Run("CREATE TABLE t (a BIGINT)", {}).ok());
  }
  EXPECT_TRUE(database->Tables()->empty());
  EXPECT_FALSE(database->Run("SELECT a FROM t", {}).ok());
}

TEST_F(DatabasesTest, UnknownSchemesAreRefusedWithoutTheirRest) {
  const absl::Status status = OpenDatabase("mysql://user:secret@host/db", Purpose::kWrite).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
}

TEST_F(DatabasesTest, AMissingLibpqIsNamedWithItsPackage) {
  const absl::Status status = Libpq::Load("libpq-that-does-not-exist.so.5").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("libpq5"));
  EXPECT_THAT(std::string(Libpq::Load("libc.so.6").status().message()),
              HasSubstr("lacks the function PQconnectdbParams"));
}

TEST_F(DatabasesTest, APasswordInAUrlIsRefusedAndNotRepeated) {
  // Only users of PostgreSQL need libpq. CI installs it.
  const auto pq = Libpq::Load();
  if (!pq.ok()) GTEST_SKIP() << pq.status();
  for (const char* url :
       {"postgresql://user:secret@host/db", "postgresql://host/db?password=secret",
        "postgres://host/db?sslpassword=secret", "postgresql://user:secret@host:nine/db?x"}) {
    const absl::Status status = PostgresqlDatabase::Open(*pq, url, Purpose::kWrite).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << url;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret"))) << url;
  }
}

TEST_F(DatabasesTest, AServerThatDoesNotAnswerIsNamed) {
  // Only users of PostgreSQL need libpq. CI installs it.
  const auto pq = Libpq::Load();
  if (!pq.ok()) GTEST_SKIP() << pq.status();
  const absl::Status status =
      PostgresqlDatabase::Open(*pq, "postgresql://user@/db?host=" + folder_, Purpose::kRead).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_));
}

#ifdef LOCKSTEP_HAS_LIBPQ_HEADER
// Our declarations are those of the installed header.
static_assert(std::is_same_v<Oid, unsigned int>);
static_assert(CONNECTION_OK == kLibpqConnected && PGRES_COMMAND_OK == kLibpqCommandDone &&
              PGRES_TUPLES_OK == kLibpqRows);
static_assert(std::is_same_v<decltype(&PQconnectdbParams), decltype(Libpq::connectdbParams)>);
static_assert(std::is_same_v<decltype(&PQexecParams), decltype(Libpq::execParams)>);
static_assert(std::is_same_v<decltype(&PQftype), decltype(Libpq::ftype)>);
static_assert(std::is_same_v<decltype(&PQgetvalue), decltype(Libpq::getvalue)>);
static_assert(std::is_same_v<decltype(&PQsetNoticeProcessor), decltype(Libpq::setNoticeProcessor)>);
static_assert(sizeof(PQconninfoOption) == sizeof(LibpqOption));
static_assert(offsetof(PQconninfoOption, val) == offsetof(LibpqOption, value));
#endif

}  // namespace
}  // namespace lockstep::history
