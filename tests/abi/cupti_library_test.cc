// Tests which CUPTI library the client opens, and compares the record lengths of the real library with ours.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "client/cupti/cupti_api.h"
#include "sim/cupti/record_size.h"
#include "wire/foreign/cupti.h"

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;

bool MapsContain(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path) != std::string::npos) return true;
  }
  return false;
}

TEST(CuptiLibrary, OpensTheCopyThatTheProgramHasLoaded) {
  char pattern[] = "/tmp/lockstep-cupti-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  std::string copies[2];
  for (int i = 0; i < 2; ++i) {
    const std::string place = folder + "/" + std::to_string(i);
    std::filesystem::create_directory(place);
    copies[i] = place + "/libcupti.so.13";
    std::filesystem::copy_file(LOCKSTEP_SIM_CUPTI, copies[i]);
  }
  void* loaded = dlopen(copies[1].c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(loaded, nullptr) << dlerror();
  CuptiApi api;
  Sentence why;
  ASSERT_TRUE(OpenCupti(nullptr, &api, &why)) << why.c_str();
  EXPECT_EQ(reinterpret_cast<void*>(api.GetVersion), dlsym(loaded, "cuptiGetVersion"));
  // Another tool loads a second copy.
  ASSERT_NE(dlopen(copies[0].c_str(), RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
  CuptiApi again;
  ASSERT_TRUE(OpenCupti(nullptr, &again, &why)) << why.c_str();
  EXPECT_EQ(api.GetVersion, again.GetVersion);
  std::filesystem::remove_all(folder);
}

TEST(CuptiLibrary, OpensTheLibraryThatTheVariableNames) {
  CuptiApi api;
  Sentence why;
  ASSERT_TRUE(OpenCupti(LOCKSTEP_SIM_CUPTI, &api, &why)) << why.c_str();
  EXPECT_TRUE(MapsContain(LOCKSTEP_SIM_CUPTI));
}

#ifdef LOCKSTEP_REAL_CUPTI
TEST(CuptiLibrary, TheRealParserHasOurRecordLengths) {
  CuptiApi api;
  Sentence why;
  ASSERT_TRUE(OpenCupti(LOCKSTEP_REAL_CUPTI, &api, &why)) << why.c_str();
  uint32_t version = 0;
  ASSERT_EQ(api.GetVersion(&version), cupti::Result::kSuccess);
  using Kind = cupti::ActivityKind;
  for (const Kind kind :
       {Kind::kConcurrentKernel, Kind::kMemcpy, Kind::kMemcpyPeer, Kind::kMemset, Kind::kRuntime,
        Kind::kDriver, Kind::kSynchronization, Kind::kCudaEvent, Kind::kDevice, Kind::kContext, Kind::kStream,
        Kind::kMemory, Kind::kExternalCorrelation, Kind::kOverhead, Kind::kGraphTrace}) {
    if (sim::RecordSize(kind, version) == 0) continue;
    EXPECT_EQ(RecordBytes(api, kind), sim::RecordSize(kind, version))
        << "kind " << static_cast<uint32_t>(kind) << " of version " << version;
  }
}
#endif

}  // namespace
}  // namespace lockstep::client
