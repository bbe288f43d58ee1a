// For tests: passes their output to a checker program of another project. The checker runs once, after all
// tests, because python and node take a third of a second to start and there are hundreds of documents.
#ifndef LOCKSTEP_TESTS_SUPPORT_CHECK_AFTER_TESTS_H_
#define LOCKSTEP_TESTS_SUPPORT_CHECK_AFTER_TESTS_H_

#include <string>
#include <string_view>

namespace lockstep::tests {

// Writes `bytes` to a file and returns its path. The name consists of the running test, a number and
// `ending`. After the tests, the shell command `command` runs in the folder of its files, with *ENDING as the
// last argument. Each line that it prints is a failure, and so is a nonzero exit status. The files stay after
// a failure.
std::string CheckAfterTests(const std::string& command, const std::string& ending, std::string_view bytes);

}  // namespace lockstep::tests

#endif  // LOCKSTEP_TESTS_SUPPORT_CHECK_AFTER_TESTS_H_
