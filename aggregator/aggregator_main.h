// The program lockstep-aggregator, callable by tests.
#ifndef LOCKSTEP_AGGREGATOR_AGGREGATOR_MAIN_H_
#define LOCKSTEP_AGGREGATOR_AGGREGATOR_MAIN_H_

namespace lockstep {

// Runs until SIGTERM or SIGINT and returns the exit code of docs (contract: 0 done, 1 failed, 2 usage).
// `environment` as main gets it.
int AggregatorMain(int argc, char** argv, char** environment);

}  // namespace lockstep

#endif  // LOCKSTEP_AGGREGATOR_AGGREGATOR_MAIN_H_
