// Reads any bytes as the output of unmunge, and as a credential's payload behind a valid head. Whatever the
// payload holds, the user is the one in the head.
#include <cstdlib>
#include <string>

#include "base/fuzz_input_fixture.h"
#include "base/rpc/munge.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::string bytes(FuzzInput(data, size).Rest());
  rpc::ParseUnmunged(bytes).status().IgnoreError();
  const auto user = rpc::ParseUnmunged("STATUS:   Success (0)\nUID:      1000\n\n" + bytes);
  if (user.ok() && *user != 1000) std::abort();
  return 0;
}
