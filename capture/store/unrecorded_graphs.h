// CUDA graphs that replayed without a record: CUPTI sees the kernels of a graph only when it was set up
// before the graph was instantiated.
#ifndef LOCKSTEP_AGGREGATOR_STORE_UNSEEN_GRAPHS_H_
#define LOCKSTEP_AGGREGATOR_STORE_UNSEEN_GRAPHS_H_

#include <cstdint>

#include "capture/model/capture.h"

namespace lockstep::store {

// Launches of CUDA graphs in `rank`'s calls of which nothing was recorded, though their turn had come: the
// device went on to what was launched later, or so much of the window was left that it must have. 0 where all
// is well, or nothing tells. Tables in any order.
uint64_t UnseenGraphLaunches(const RankData& rank);

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_UNSEEN_GRAPHS_H_
