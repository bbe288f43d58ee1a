// The functions that other code calls: CUDA, NVTX and NCCL through their injection points, programs through
// the C API. This file has all globals of the client, except those through which NVTX's and NCCL's handlers
// find them. All are constructed at compile time, so the order of initialisation does not matter.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cstdlib>
#include <cstring>

#include "client/agent.h"
#include "client/capture.h"
#include "client/cupti/cupti_api.h"
#include "client/nccl/nccl_plugin.h"
#include "client/nvtx/nvtx_chain.h"
#include "client/nvtx/nvtx_injection.h"
#include "client/python/python_profile.h"
#include "client/record/timing.h"
#include "wire/foreign/cupti.h"
#include "wire/foreign/nvtx.h"

#define LOCKSTEP_EXPORT extern "C" __attribute__((visibility("default")))
#define LOCKSTEP_API __attribute__((visibility("default")))
#include "client/lockstep.h"

namespace lockstep::client {
namespace {

constexpr size_t kStackBytes = 512 << 10;
// If the program ends during a capture, the capture is finished first. A drain may take most of this time.
constexpr Nanos kExitLimit = Nanos::Seconds(3);

void OnRequested(uint8_t** buffer, size_t* bytes, size_t* max_records);
void OnCompleted(foreign::cupti::Context, uint32_t, uint8_t* buffer, size_t bytes, size_t valid_bytes);
bool OpenCuptiOfThisProcess(CuptiApi* api, Sentence* why);
SocketSearch SearchOfThisProcess();

constinit RecordingFlags g_flags;
constinit Capture g_capture(g_flags, kSystemTiming, OpenCuptiOfThisProcess, {OnRequested, OnCompleted});
constinit PythonProfile g_python(kSystemTiming, kProcessPython);
constinit Agent g_agent(kSystemTiming, g_capture, g_python, SearchOfThisProcess);
constinit NcclChain g_nccl_chain;
constinit std::atomic<bool> g_started{false};
// Set in a child of a process that had started. Nothing works and nothing starts there.
constinit std::atomic<bool> g_inert{false};
constinit EntryKind g_entry = EntryKind::kCudaInjection;
constinit std::atomic<const void*> g_step_domain{nullptr};

// The callbacks that the program set with lockstep_on_capture.
enum : uint32_t { kNoCallbacks, kSettingCallbacks, kHaveCallbacks };
struct CaptureCallbacks {
  std::atomic<uint32_t> state{kNoCallbacks};
  std::atomic<uint64_t> reported_capture{
      0};  // serial of the capture whose start was reported and whose end was not
  void (*started)(void*) = nullptr;
  void (*stopped)(void*) = nullptr;
  void* data = nullptr;
};
constinit CaptureCallbacks g_callbacks;

// Runs on the thread that marks steps. A program (and Python's interpreter lock) expects the calls there.
void RunCaptureCallbacks() {
  if (g_callbacks.state.load(std::memory_order_acquire) != kHaveCallbacks) return;
  const uint64_t recording = g_capture.recording() ? g_capture.serial() : 0;
  uint64_t reported_capture = g_callbacks.reported_capture.load();
  if (reported_capture == recording ||
      !g_callbacks.reported_capture.compare_exchange_strong(reported_capture, recording))
    return;
  if (reported_capture != 0 && g_callbacks.stopped != nullptr) g_callbacks.stopped(g_callbacks.data);
  if (recording != 0 && g_callbacks.started != nullptr) g_callbacks.started(g_callbacks.data);
}

void OnRequested(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  if (g_inert.load()) return g_capture.cupti().OnRequestedInChild(buffer, bytes, max_records);
  g_capture.cupti().OnRequested(buffer, bytes, max_records);
}

void OnCompleted(foreign::cupti::Context, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  if (!g_inert.load()) g_capture.cupti().OnCompleted(buffer, valid_bytes);
}

void OnThreadExit(void* value) {
  if (g_inert.load()) return;
  g_capture.recorder().OnThreadExit(value, [](ThreadSlot& slot) { g_capture.nvtx().CloseOpen(slot); });
}

void OnExit() {
  if (!g_inert.load()) g_agent.FinishForExit(kExitLimit);
}

void OnFork() {
  g_inert.store(true);
  g_flags.Close();
  g_agent.ForgetInChild();
}

bool OpenCuptiOfThisProcess(CuptiApi* api, Sentence* why) {
  if (!OpenCupti(::secure_getenv("LOCKSTEP_CUPTI_LIB"), api, why)) return false;
  // Registers the exit handler again after CUPTI was loaded: exit handlers run in reverse order, and ours
  // needs CUPTI.
  ::atexit(OnExit);
  return true;
}

SocketSearch SearchOfThisProcess() {
  return {.environment = ::secure_getenv("LOCKSTEP_SOCKET"),
          .runtime_dir = ::secure_getenv("XDG_RUNTIME_DIR")};
}

void* RunAgent(void*) {
  ::prctl(PR_SET_NAME, "lockstep");
  g_agent.Run(g_entry);
  return nullptr;
}

// Returns whether any device of this process has a context, according to the loaded driver. It returns true
// if the driver cannot tell, because a set-up that is too early still works.
bool ContextUp() {
  using StateFn = int (*)(int device, uint32_t* flags, int* active);
  using CountFn = int (*)(int* count);
  static StateFn state = nullptr;
  static CountFn count = nullptr;
  if (state == nullptr) {
    void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver == nullptr) return true;
    state = reinterpret_cast<StateFn>(::dlsym(driver, "cuDevicePrimaryCtxGetState"));
    count = reinterpret_cast<CountFn>(::dlsym(driver, "cuDeviceGetCount"));
    if (state == nullptr || count == nullptr) return true;
  }
  int devices = 0;
  if (count(&devices) != 0) return false;
  for (int device = 0; device < devices && device < 64; ++device) {
    uint32_t flags = 0;
    int active = 0;
    if (state(device, &flags, &active) == 0 && active != 0) return true;
  }
  return false;
}

bool IsSetTo(const char* variable, const char* value) {
  const char* set = ::secure_getenv(variable);
  return set != nullptr && std::strcmp(set, value) == 0;
}

// LOCKSTEP_PREPARE is always, never or auto. Auto means never until the cost of the set-up has been measured
// on a GPU. LOCKSTEP_REGISTER is context or always.
AgentOptions OptionsOfThisProcess() {
  return {IsSetTo("LOCKSTEP_PREPARE", "always") ? Prepare::kAtFirstContext : Prepare::kNever,
          IsSetTo("LOCKSTEP_REGISTER", "always") ? Registration::kAtOnce : Registration::kWithContext,
          ContextUp};
}

// LOCKSTEP_CUPTI_BUFFER_KIB is 64 to 4096 (1024). LOCKSTEP_CUPTI_ZEROED is 1 or unset. A wrong value counts
// as unset.
CuptiBufferSettings BuffersOfThisProcess() {
  CuptiBufferSettings settings;
  const char* kib = ::secure_getenv("LOCKSTEP_CUPTI_BUFFER_KIB");
  size_t value = 0;
  for (; kib != nullptr && *kib >= '0' && *kib <= '9' && value < kMostCuptiBufferBytes; ++kib)
    value = 10 * value + static_cast<size_t>(*kib - '0');
  if (kib != nullptr && *kib == '\0' && value >= 64 && value <= kMostCuptiBufferBytes >> 10)
    settings.bytes = value << 10;
  if (IsSetTo("LOCKSTEP_CUPTI_ZEROED", "1")) settings.zeros = CuptiBufferSettings::Zeros::kByUs;
  return settings;
}

bool StartThread() {
  // Block all signals, so that the application's signals never reach this thread.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  if (::pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  ::pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread;
  const bool started = ::pthread_create(&thread, &attributes, RunAgent, nullptr) == 0;
  ::pthread_attr_destroy(&attributes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

// The programs of CUDA's Multi-Process Service use the GPU on behalf of the ranks.
bool IsMpsProgram() {
  constexpr char kMps[] = "nvidia-cuda-mps";
  return std::strncmp(program_invocation_short_name, kMps, sizeof kMps - 1) == 0;
}

// Starts the thread once per process. Later calls only return the result.
bool Start() {
  if (g_inert.load() || IsMpsProgram()) return false;
  if (g_started.exchange(true)) return true;
  g_flags.WipeInChildren();
  g_agent.SetOptions(OptionsOfThisProcess());
  g_capture.cupti().SetBuffers(BuffersOfThisProcess());
  ::atexit(OnExit);
  return g_capture.recorder().Init(OnThreadExit) && ::pthread_atfork(nullptr, nullptr, OnFork) == 0 &&
         StartThread();
}

bool NamesUs(const char* value) {
  return value != nullptr && std::strstr(value, "lockstep_client") != nullptr;
}

// The tool that NVTX_INJECTION64_PATH named before us; `lockstep run` passes it on. The first library that
// uses NVTX loads it. Other libraries wait meanwhile.
const NvtxTool& ChainedNvtxTool() {
  enum : uint32_t { kNot, kLoading, kLoaded };
  static constinit std::atomic<uint32_t> state{kNot};
  static constinit NvtxTool tool;
  uint32_t expected = kNot;
  if (state.compare_exchange_strong(expected, kLoading)) {
    tool = LoadNvtxTool(::secure_getenv("LOCKSTEP_NVTX_CHAIN"));
    state.store(kLoaded, std::memory_order_release);
  }
  while (state.load(std::memory_order_acquire) != kLoaded) kSystemTiming.pause(Nanos::Micros(100));
  return tool;
}

// Runs in every process that loads the library, also in shells and compilers. It does only what must precede
// the lookups of CUDA, NVTX and NCCL.
__attribute__((constructor)) void OnLoad() {
  if (IsSetTo("LOCKSTEP_PROGRESS", "1")) {
    g_capture.nccl().progress().TurnOn(kSystemTiming);
    if (!IsSetTo("LOCKSTEP_NETWORK", "0")) g_capture.nccl().network().TurnOn(kSystemTiming);
  }
  SetNcclSource(g_capture.nccl(), [] { Start(); });
  SetNcclCalls(g_capture.nccl_calls());
  g_nccl_chain.SetName(::secure_getenv("LOCKSTEP_NCCL_CHAIN"));
  SetNcclChain(&g_nccl_chain);
  constexpr const char* kVariables[] = {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH",
                                        "NCCL_PROFILER_PLUGIN"};
  const bool preloaded = NamesUs(::getenv("LD_PRELOAD"));
  bool opened_by_path = false;
  for (const char* name : kVariables) opened_by_path |= NamesUs(::getenv(name));
  // A process has threads already when CUDA, NVTX or NCCL opens the library. A change of the environment
  // could then crash one.
  if (opened_by_path && !preloaded) return;
  g_entry = preloaded ? EntryKind::kPreload : EntryKind::kLinked;
  if (::secure_getenv("PATH") == nullptr && ::getenv("PATH") != nullptr)
    return;  // a set-user-id program stays unchanged
  Dl_info self;
  if (::dladdr(reinterpret_cast<void*>(&Start), &self) == 0 || self.dli_fname == nullptr) return;
  for (const char* name : kVariables) ::setenv(name, self.dli_fname, 0);
}

}  // namespace
}  // namespace lockstep::client

using namespace lockstep::client;

LOCKSTEP_EXPORT int InitializeInjection() {
  Start();
  return 1;
}

LOCKSTEP_EXPORT int InitializeInjectionNvtx2(lockstep::foreign::nvtx::GetExportTableFn get_export_table) {
  InstallChainedNvtxHandlers(g_capture.nvtx(), ChainedNvtxTool(), get_export_table);
  return 1;
}

LOCKSTEP_EXPORT int InitializeInjectionNvtxExtension(lockstep::foreign::nvtx::ExtensionInfo* extension) {
  return InstallChainedNvtxExtensionHandlers(g_capture.nvtx(), ChainedNvtxTool(), extension) ? 1 : 0;
}

extern "C" {

const char* lockstep_version() { return LOCKSTEP_VERSION; }

int lockstep_start() { return Start() ? 1 : 0; }

void lockstep_range_push(const char* name) {
  if (g_capture.nvtx().ignores_begins() || name == nullptr) return;
  g_capture.nvtx().Push(nullptr, {name, std::strlen(name)}, 0);
}

void lockstep_range_pop() { g_capture.nvtx().Pop(nullptr); }

void lockstep_step_begin(uint64_t step) {
  RunCaptureCallbacks();
  if (g_capture.nvtx().follows_steps()) g_capture.log().AddStep(step, lockstep::ring::LogKind::kMarkedStep);
  if (g_capture.nvtx().idle()) return;
  const void* domain = g_step_domain.load();
  if (domain == nullptr) {
    const void* made = g_capture.nvtx().CreateDomain(kLockstepDomain.data());
    domain = g_step_domain.compare_exchange_strong(domain, made) ? made : g_step_domain.load();
  }
  char text[5 + 20] = {'s', 't', 'e', 'p', ' '};
  size_t length = 5;
  char digits[20];
  size_t count = 0;
  for (uint64_t rest = step; rest != 0 || count == 0; rest /= 10)
    digits[count++] = static_cast<char>('0' + rest % 10);
  while (count > 0) text[length++] = digits[--count];
  g_capture.nvtx().Push(domain, {text, length}, step);
}

void lockstep_step_end() {
  if (!g_capture.nvtx().idle()) g_capture.nvtx().Pop(g_step_domain.load());
}

void lockstep_profiler_start() { g_capture.OnProfilerCall(Capture::ProfilerCall::kStart); }
void lockstep_profiler_stop() { g_capture.OnProfilerCall(Capture::ProfilerCall::kStop); }

int lockstep_capturing() { return g_capture.recording() ? 1 : 0; }

int lockstep_on_capture(void (*started)(void*), void (*stopped)(void*), void* data) {
  uint32_t free = kNoCallbacks;
  if (!g_callbacks.state.compare_exchange_strong(free, kSettingCallbacks)) return 0;
  g_callbacks.started = started;
  g_callbacks.stopped = stopped;
  g_callbacks.data = data;
  g_callbacks.state.store(kHaveCallbacks, std::memory_order_release);
  return 1;
}

}  // extern "C"
