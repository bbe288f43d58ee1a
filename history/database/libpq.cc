#include "history/database/libpq.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace lockstep::history {
namespace {

constexpr char kLibpqRemedy[] =
    "; install PostgreSQL's client library (Debian, Ubuntu: libpq5; Red Hat: libpq; SUSE: libpq5)";

// Stores the function `name` in `function`. Returns false if the library lacks it.
template <typename Function>
bool FindFunction(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

absl::StatusOr<Libpq> Libpq::Load(const char* file) {
  void* library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return absl::FailedPreconditionError(absl::StrCat(
        "a history in PostgreSQL needs ", file,
        ", which cannot be loaded: ", reason == nullptr ? "unknown error" : reason, kLibpqRemedy));
  }
  Libpq pq{};
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto*& function) {
    if (!FindFunction(library, name, function) && missing == nullptr) missing = name;
  };
  find("PQconnectdbParams", pq.connectdbParams);
  find("PQstatus", pq.status);
  find("PQerrorMessage", pq.errorMessage);
  find("PQfinish", pq.finish);
  find("PQsetNoticeProcessor", pq.setNoticeProcessor);
  find("PQconninfoParse", pq.conninfoParse);
  find("PQconninfo", pq.conninfo);
  find("PQconninfoFree", pq.conninfoFree);
  find("PQfreemem", pq.freemem);
  find("PQexecParams", pq.execParams);
  find("PQresultStatus", pq.resultStatus);
  find("PQresultErrorMessage", pq.resultErrorMessage);
  find("PQclear", pq.clear);
  find("PQntuples", pq.ntuples);
  find("PQnfields", pq.nfields);
  find("PQftype", pq.ftype);
  find("PQgetisnull", pq.getisnull);
  find("PQgetlength", pq.getlength);
  find("PQgetvalue", pq.getvalue);
  if (missing == nullptr) return pq;
  return absl::FailedPreconditionError(absl::StrCat(file, " lacks the function ", missing, kLibpqRemedy));
}

}  // namespace lockstep::history
