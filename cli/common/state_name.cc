#include "cli/common/state_name.h"

namespace lockstep::cli {

const char* StateName(v1::RankState::State state) {
  switch (state) {
    case v1::RankState::SEEN:
      return "seen";
    case v1::RankState::ARMED:
      return "armed";
    case v1::RankState::CAPTURING:
      return "capturing";
    case v1::RankState::WAITING:
      return "waiting";
    case v1::RankState::DONE:
      return "done";
    case v1::RankState::FAILED:
      return "failed";
    case v1::RankState::GONE:
      return "gone";
    default:
      return "unknown";
  }
}

}  // namespace lockstep::cli
