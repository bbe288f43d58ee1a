// Answers any bytes as a dynolog call, and as parts of a valid call. Every answer must be a JSON object.
#include <cstdlib>
#include <string>

#include "base/fuzz_input_fixture.h"
#include "daemon/kineto/dyno_server.h"
#include "daemon/kineto/kineto_protocol.h"
#include "simdjson.h"

namespace {

using namespace lockstep;
using namespace lockstep::daemon;

struct Handler final : DynoHandler {
  DynoTriggered Trigger(uid_t, const DynoTrigger& trigger) override {
    if (trigger.config.empty() || trigger.config.size() > kLargestKinetoConfig || trigger.most < 0)
      std::abort();
    return {trigger.pids, trigger.pids, trigger.most};
  }
};

void Answer(const std::string& call) {
  Handler handler;
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (parser.parse(AnswerDyno(call, 0, handler)).get(object) != simdjson::SUCCESS) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(FuzzInput(data, size).Rest());
  Answer(bytes);
  Answer(R"({"fn": "setKinetOnDemandRequest", "config": "A=1", )" + bytes + "}");
  return 0;
}
