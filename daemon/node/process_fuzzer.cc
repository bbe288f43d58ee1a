// Reads what other users' processes put into /proc, with any content: names, environments, mappings, and the
// kernel's lines around them. Also derives the identity of a client from any variables. The sentences for
// `lockstep status` must be text without control characters.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/fuzz_input_fixture.h"
#include "daemon/node/expected_processes.h"
#include "daemon/node/identity.h"
#include "daemon/node/own_access.h"
#include "daemon/node/temp_folder_fake.h"

namespace {

using namespace lockstep;
using namespace lockstep::daemon;
namespace fs = std::filesystem;

constexpr int32_t kFirst = 100;
constexpr size_t kProcesses = 3;

void Write(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

bool HasControlCharacter(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

// Each process is a child of the one before it.
void AddProcess(FuzzInput& input, const std::string& proc, int32_t pid) {
  const std::string folder = absl::StrCat(proc, "/", pid);
  std::string stat = absl::StrCat(pid, " (", std::string(input.Text()), ") S ", pid - 1);
  for (int field = 5; field < 22; ++field) stat += " 0";
  Write(folder + "/stat", input.Flag() ? stat + " 100 0\n" : std::string(input.Text()));
  Write(folder + "/comm", input.Text());
  std::string environment(input.Text(2048));
  // A zero byte would be tedious to find.
  std::replace(environment.begin(), environment.end(), '\n', '\0');
  Write(folder + "/environ", environment);
  Write(folder + "/maps",
        input.Flag() ? "7f10-7f20 r-xp 00000000 08:01 2 /usr/lib/libcuda.so.1\n" : input.Text(1024));
  Write(folder + "/status", input.Flag() ? "NSpid:\t100\t7\n" : input.Text());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TempFolder folder;
  const std::string proc = folder.path() + "/proc";
  FuzzInput input(data, size);
  Write(proc + "/uptime", input.Flag() ? "1000.00 1900.00\n" : input.Text());
  for (size_t i = 0; i < kProcesses; ++i) AddProcess(input, proc, kFirst + static_cast<int32_t>(i));

  const OwnAccess access({proc, folder.path()});
  const ExpectedProcesses expected(
      {.socket = "/run/lockstep/client.sock", .uptime = proc + "/uptime"}, access,
      {.registered = [](int32_t pid) { return pid == kFirst; },
       .by_profiler = [](int32_t) { return false; },
       .reported = [](int32_t) { return false; },
       .probed = [](const ProcessId& process) { return process.pid == kFirst + 1; }});
  for (const std::string& sentence : expected.Unreached(getuid())) {
    if (sentence.empty() || HasControlCharacter(sentence)) std::abort();
  }
  expected.AnyAlive(getuid());

  const Identity identity = Identify({input.Rest(), {kFirst, 1}, {kFirst - 1, 1}});
  if (identity.job.empty() || identity.job.size() > 4 * 128 || HasControlCharacter(identity.job))
    std::abort();
  return 0;
}
