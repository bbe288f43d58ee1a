// The main program of lockstep-aggregator, callable from tests.
#ifndef LOCKSTEP_AGGREGATOR_AGGREGATOR_MAIN_H_
#define LOCKSTEP_AGGREGATOR_AGGREGATOR_MAIN_H_

namespace lockstep::aggregator {

// Runs until SIGTERM or SIGINT and returns the exit code: 0 success, 1 failure, 2 wrong usage. `environment`
// is main's third argument.
int AggregatorMain(int argc, char** argv, char** environment);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_AGGREGATOR_MAIN_H_
