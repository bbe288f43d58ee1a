// Libpq holds the functions of libpq, PostgreSQL's client library, which is loaded when it is first used.
// Nothing else of Lockstep needs the library, so programs do not link it.
//
// The declarations are our own. libpq has kept them, and the name libpq.so.5, since PostgreSQL 8.2.
// databases_test.cc compares them with the header of the installed version.
#ifndef LOCKSTEP_HISTORY_DATABASE_LIBPQ_H_
#define LOCKSTEP_HISTORY_DATABASE_LIBPQ_H_

#include <cstdint>

#include "absl/status/statusor.h"

struct pg_conn;
struct pg_result;

namespace lockstep::history {

// A setting of a connection, as libpq parses it. The structure is libpq's.
struct LibpqOption {
  char* keyword;
  char* environment;
  char* compiled;
  char* value;  // null: not given
  char* label;
  char* shown_as;
  int shown_bytes;
};

inline constexpr int kLibpqConnected = 0;    // CONNECTION_OK
inline constexpr int kLibpqCommandDone = 1;  // PGRES_COMMAND_OK
inline constexpr int kLibpqRows = 2;         // PGRES_TUPLES_OK
inline constexpr int kLibpqTextFormat = 0;
// Types of values, by the numbers in PostgreSQL's catalog.
inline constexpr uint32_t kLibpqUnknown = 0, kLibpqInt8 = 20, kLibpqInt2 = 21, kLibpqInt4 = 23,
                          kLibpqText = 25, kLibpqFloat4 = 700, kLibpqFloat8 = 701, kLibpqNumeric = 1700;

// The members are libpq's functions of that name, without PQ.
struct Libpq {
  pg_conn* (*connectdbParams)(const char* const* keywords, const char* const* values, int expand);
  int (*status)(const pg_conn* connection);
  char* (*errorMessage)(const pg_conn* connection);
  void (*finish)(pg_conn* connection);
  void (*(*setNoticeProcessor)(pg_conn* connection, void (*process)(void* argument, const char* message),
                               void* argument))(void*, const char*);
  LibpqOption* (*conninfoParse)(const char* conninfo, char** error);
  LibpqOption* (*conninfo)(pg_conn* connection);
  void (*conninfoFree)(LibpqOption* options);
  void (*freemem)(void* memory);
  pg_result* (*execParams)(pg_conn* connection, const char* sql, int values, const uint32_t* types,
                           const char* const* texts, const int* bytes, const int* formats, int result_format);
  int (*resultStatus)(const pg_result* result);
  char* (*resultErrorMessage)(const pg_result* result);
  void (*clear)(pg_result* result);
  int (*ntuples)(const pg_result* result);
  int (*nfields)(const pg_result* result);
  uint32_t (*ftype)(const pg_result* result, int column);
  int (*getisnull)(const pg_result* result, int row, int column);
  int (*getlength)(const pg_result* result, int row, int column);
  char* (*getvalue)(const pg_result* result, int row, int column);

  // Loads the library `file`, which stays loaded until the process ends. kFailedPrecondition: it is not
  // installed, or lacks a function; the message names the package.
  static absl::StatusOr<Libpq> Load(const char* file = "libpq.so.5");
};

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_DATABASE_LIBPQ_H_
