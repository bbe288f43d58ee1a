#include "client/cupti/cupti_api.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <type_traits>

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;

// Newest first. In CUDA 11 the file name has the minor version.
constexpr const char* kNames[] = {"libcupti.so.13",   "libcupti.so.12",   "libcupti.so.11.8",
                                  "libcupti.so.11.7", "libcupti.so.11.6", "libcupti.so.11.5",
                                  "libcupti.so.11.4", "libcupti.so.11.3", "libcupti.so.11.2",
                                  "libcupti.so.11.1", "libcupti.so.11.0"};

// CUPTI's places relative to the CUDA runtime library: the same folder (toolkits), or a neighbouring folder
// of Python wheels.
constexpr const char* kBesideRuntime[] = {"/", "/../../cuda_cupti/lib/", "/../extras/CUPTI/lib64/"};
// The places of the toolkit's installers; "" is the loader's own search.
constexpr const char* kToolkits[] = {"", "/usr/local/cuda/extras/CUPTI/lib64/", "/usr/local/cuda/lib64/"};

void* OpenLoaded(const char* name) { return ::dlopen(name, RTLD_NOW | RTLD_NOLOAD); }

// Opens the CUPTI of the same version as the libcudart.so.N that the process has loaded.
void* OpenBesideRuntime() {
  constexpr struct {
    const char* runtime;
    const char* cupti;
  } kPairs[] = {{"libcudart.so.13", "libcupti.so.13"}, {"libcudart.so.12", "libcupti.so.12"}};
  for (const auto& pair : kPairs) {
    void* runtime = OpenLoaded(pair.runtime);
    if (runtime == nullptr) continue;
    link_map* map = nullptr;
    const bool known =
        ::dlinfo(runtime, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr;
    const char* slash = known ? std::strrchr(map->l_name, '/') : nullptr;
    void* found = nullptr;
    for (const char* place : kBesideRuntime) {
      if (slash == nullptr || found != nullptr) break;
      Text<1024> path;
      path.Append(map->l_name, static_cast<size_t>(slash - map->l_name)) << place << pair.cupti;
      found = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    ::dlclose(runtime);
    if (found != nullptr) return found;
  }
  return nullptr;
}

// Opens the CUPTI that fits the driver's CUDA major version.
void* OpenByDriver() {
  void* driver = OpenLoaded("libcuda.so.1");
  if (driver == nullptr) return nullptr;
  const auto version_of = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDriverGetVersion"));
  int version = 0;
  void* found = nullptr;
  if (version_of != nullptr && version_of(&version) == 0 && version >= 11000) {
    for (const char* folder : kToolkits) {
      Text<128> path;
      path << folder << "libcupti.so." << static_cast<uint32_t>(version / 1000);
      if (found == nullptr) found = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
  ::dlclose(driver);
  return found;
}

}  // namespace

size_t RecordBytes(const CuptiApi& api, cupti::ActivityKind kind) {
  // The buffer has one record of `kind`, then records of a kind that always parses. The position of the
  // second record shows the length of the first.
  alignas(8) uint8_t buffer[2048] = {};
  const auto runtime = static_cast<uint32_t>(cupti::ActivityKind::kRuntime);
  for (size_t at = 8; at < sizeof buffer; at += 8) std::memcpy(buffer + at, &runtime, sizeof runtime);
  std::memcpy(buffer, &kind, sizeof kind);
  cupti::Activity* record = nullptr;
  for (int i = 0; i < 2; ++i) {
    if (api.GetNextRecord(buffer, sizeof buffer, &record) != cupti::Result::kSuccess || record == nullptr)
      return 0;
  }
  return static_cast<size_t>(reinterpret_cast<uint8_t*>(record) - buffer);
}

bool ResolveCupti(void* library, CuptiApi* api, Sentence* why) {
  CuptiApi found;
  const char* missing = nullptr;
  const auto must = [&](auto* slot, const char* name) {
    *slot = reinterpret_cast<std::remove_reference_t<decltype(*slot)>>(::dlsym(library, name));
    if (*slot == nullptr && missing == nullptr) missing = name;
  };
  const auto may = [&](auto* slot, const char* name) {
    *slot = reinterpret_cast<std::remove_reference_t<decltype(*slot)>>(::dlsym(library, name));
  };
  must(&found.GetVersion, "cuptiGetVersion");
  must(&found.GetTimestamp, "cuptiGetTimestamp");
  must(&found.RegisterCallbacks, "cuptiActivityRegisterCallbacks");
  must(&found.Enable, "cuptiActivityEnable");
  must(&found.Disable, "cuptiActivityDisable");
  must(&found.FlushAll, "cuptiActivityFlushAll");
  must(&found.GetNextRecord, "cuptiActivityGetNextRecord");
  must(&found.GetNumDroppedRecords, "cuptiActivityGetNumDroppedRecords");
  may(&found.GetResultString, "cuptiGetResultString");
  may(&found.GetCallbackName, "cuptiGetCallbackName");
  may(&found.GetAttribute, "cuptiActivityGetAttribute");
  may(&found.SetAttribute, "cuptiActivitySetAttribute");
  may(&found.SetThreadIdType, "cuptiSetThreadIdType");
  may(&found.GetThreadIdType, "cuptiGetThreadIdType");
  may(&found.PushExternalCorrelationId, "cuptiActivityPushExternalCorrelationId");
  may(&found.PopExternalCorrelationId, "cuptiActivityPopExternalCorrelationId");
  may(&found.EnableRuntimeApi, "cuptiActivityEnableRuntimeApi");
  may(&found.EnableDriverApi, "cuptiActivityEnableDriverApi");
  may(&found.EnableAllSyncRecords, "cuptiActivityEnableAllSyncRecords");
  may(&found.EnableAndDump, "cuptiActivityEnableAndDump");
  may(&found.Subscribe, "cuptiSubscribe_v2");
  may(&found.Unsubscribe, "cuptiUnsubscribe");
  if (missing != nullptr) {
    *why << "the CUPTI library of this process lacks the function " << missing;
    return false;
  }
  *api = found;
  return true;
}

bool OpenCupti(const char* wanted, CuptiApi* api, Sentence* why) {
  if (wanted != nullptr && wanted[0] != '\0') {
    void* library = ::dlopen(wanted, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      *why << "cannot open " << wanted << ", which LOCKSTEP_CUPTI_LIB names";
      return false;
    }
    return ResolveCupti(library, api, why);
  }
  void* library = nullptr;
  for (const char* name : kNames) {
    if (library == nullptr) library = OpenLoaded(name);
  }
  if (library == nullptr) library = OpenBesideRuntime();
  if (library == nullptr) library = OpenByDriver();
  for (const char* name : kNames) {
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    *why << "no CUPTI library was found: neither loaded, nor beside the CUDA runtime, nor on the library "
            "path or in /usr/local/cuda; set LOCKSTEP_CUPTI_LIB to libcupti.so";
    return false;
  }
  return ResolveCupti(library, api, why);
}

}  // namespace lockstep::client
