// Runs a program in a child process until it ends, with a limit on its time and on its answer.
#ifndef LOCKSTEP_AGGREGATOR_REPORTS_CHILD_PROCESS_H_
#define LOCKSTEP_AGGREGATOR_REPORTS_CHILD_PROCESS_H_

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace lockstep::aggregator {

// The descriptors of the child. 1, 2, and 3 of a child without an answer, are /dev/null, and all others are
// closed.
inline constexpr int kOrderFd = 0;
inline constexpr int kAnswerFd = 3;
inline constexpr int kFirstFileFd = 4;

struct ChildCommand {
  std::string program;             // path
  std::vector<std::string> words;  // arguments, with the name of the program first
  std::string order;               // bytes that it reads from kOrderFd
  std::vector<int> files;          // its descriptors from kFirstFileFd on
  Nanos at_most;                   // SIGKILL follows, also for the processes that it has started
  size_t most_answer_bytes = 0;    // 0: it gives no answer
};

struct ChildEnd {
  enum class How : uint8_t {
    kExited,
    kSignalled,
    kTimedOut,
    kStopped,     // `stop` became true
    kLongAnswer,  // the answer has more than `most_answer_bytes`
  };
  How how = How::kExited;
  int code = 0;        // exit code or signal
  std::string answer;  // bytes from kAnswerFd
};

// Starts the program by exec, with the environment's LD_* variables only, and default actions for all
// signals. Returns when it has ended. Any thread may call it, but the thread must live until it returns. It
// kills the child soon after `stop` becomes true. Fails if the child cannot be started; the error names the
// program.
absl::StatusOr<ChildEnd> RunChild(const ChildCommand& command, const std::atomic<bool>& stop);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_REPORTS_CHILD_PROCESS_H_
