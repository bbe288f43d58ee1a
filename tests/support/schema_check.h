// For tests: checks documents against the schemas of docs/formats with Debian's python3-jsonschema.
#ifndef LOCKSTEP_TESTS_SUPPORT_SCHEMA_CHECK_H_
#define LOCKSTEP_TESTS_SUPPORT_SCHEMA_CHECK_H_

#include <string>
#include <string_view>

#include "tests/support/check_after_tests.h"

namespace lockstep::tests {

// `schema` "report" means docs/formats/report.schema.json. With `lines`, each line of the text is a document.
// Violations fail after all tests have run.
inline void CheckSchema(const std::string& schema, std::string_view text, bool lines = false) {
  const std::string source = LOCKSTEP_SOURCE_DIR;
  const std::string checker = "'" LOCKSTEP_DEBIAN_PYTHON "' '" + source + "/tests/support/check_schema.py'";
  CheckAfterTests(checker + " '" + source + "/docs/formats/" + schema + ".schema.json'",
                  lines ? ".jsonl" : ".json", text);
}

}  // namespace lockstep::tests

#endif  // LOCKSTEP_TESTS_SUPPORT_SCHEMA_CHECK_H_
