// The child process that analyses one capture: a hidden mode of lockstep-aggregator.
#ifndef LOCKSTEP_AGGREGATOR_REPORTS_ANALYSIS_CHILD_H_
#define LOCKSTEP_AGGREGATOR_REPORTS_ANALYSIS_CHILD_H_

#include <string>

namespace lockstep::aggregator {

// The first argument of the hidden mode.
inline constexpr char kAnalysisChildWord[] = "analysis-child";
// Exit code of a child that ran out of memory. Without memory, it cannot write a message.
inline constexpr int kOutOfMemory = 10;

// Returns true if the arguments of main() are those of the child.
bool IsAnalysisChild(int argc, char** argv);

// Reads a v1::AnalysisOrder from kOrderFd (child_process.h), gives up its rights (sandbox.h), analyses, and
// writes a v1::AnalysisResult to kAnswerFd and the report to the descriptors from kFirstFileFd on. Call it
// before any thread starts. Returns the exit code: 0 if the result was written.
int AnalysisChildMain(const std::string& version);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_REPORTS_ANALYSIS_CHILD_H_
