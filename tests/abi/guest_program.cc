// A program for guest_test.cc into which the client is injected. It runs one mode and prints each result as a
// line on stdout.
//
//   guest_program LIBRARY MODE
//
// The test controls it over stdin: Wait() returns when one byte arrives there.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "wire/foreign/cupti.h"
#include "wire/foreign/nvtx.h"

namespace {

namespace nvtx = lockstep::foreign::nvtx;

void PrintLine(const std::string& line) {
  std::string out = line + "\n";
  if (::write(1, out.data(), out.size()) < 0) ::_exit(9);
}
void Wait() {
  char byte;
  if (::read(0, &byte, 1) != 1) ::_exit(8);
}

// This program's own NVTX tables.
nvtx::FunctionPointer g_core[nvtx::kCoreSlots];
nvtx::FunctionPointer* g_core_table[nvtx::kCoreSlots];

const void* ExportTable(nvtx::ExportTable table) {
  static constexpr nvtx::ExportTableCallbacks kCallbacks = {
      sizeof(nvtx::ExportTableCallbacks), [](nvtx::Module module, nvtx::FunctionTable* out, uint32_t* slots) {
        if (module != nvtx::Module::kCore) return 0;
        *out = g_core_table;
        *slots = nvtx::kCoreSlots;
        return 1;
      }};
  return table == nvtx::ExportTable::kCallbacks ? &kCallbacks : nullptr;
}

void Push(const char* text) {
  reinterpret_cast<nvtx::RangePushAFn>(g_core[static_cast<uint32_t>(nvtx::Core::kRangePushA)])(text);
}
void Pop() { reinterpret_cast<nvtx::RangePopFn>(g_core[static_cast<uint32_t>(nvtx::Core::kRangePop)])(); }

bool MapsContain(const char* text) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

void Inject(const char* path) {
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    PrintLine(std::string("dlopen: ") + ::dlerror());
    ::_exit(7);
  }
  for (uint32_t i = 0; i < nvtx::kCoreSlots; ++i) g_core_table[i] = &g_core[i];
  const auto nvtx_init =
      reinterpret_cast<nvtx::InitializeInjectionNvtx2Fn>(::dlsym(library, "InitializeInjectionNvtx2"));
  if (nvtx_init(&ExportTable) != 1) PrintLine("NVTX refused");
  const auto init = reinterpret_cast<lockstep::foreign::cupti::InitializeInjectionFn>(
      ::dlsym(library, "InitializeInjection"));
  if (init() != 1) PrintLine("CUDA refused");
  // Repeats the call that every library with NVTX makes. The unload after it must have no effect.
  if (nvtx_init(&ExportTable) != 1) PrintLine("NVTX refused the second library");
  ::dlclose(library);
}

// Runs in a child of the captured process and makes every kind of call that reaches the client.
int BehaveAsChild() {
  for (int i = 0; i < 1000; ++i) {
    Push("in the child");
    Pop();
  }
  return 0;
}

void ReportChild(const char* how, pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  PrintLine(std::string(how) +
            (WIFEXITED(status) && WEXITSTATUS(status) == 0 ? " child fine" : " child died"));
}

void Fork() {
  Wait();  // until the capture runs
  pid_t child = ::fork();
  if (child == 0) std::exit(BehaveAsChild());  // runs the exit handlers
  ReportChild("fork:", child);
  // A raw system call skips libc's fork handlers, as in language runtimes and sandboxes.
  child = static_cast<pid_t>(::syscall(SYS_fork));
  if (child == 0) ::_exit(BehaveAsChild());
  ReportChild("raw fork:", child);
  child = ::fork();
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c",
            "ls -l /proc/self/fd | awk '{print $9}' | sort -n | tail -1 | xargs test 512 -gt", nullptr);
    ::_exit(1);
  }
  ReportChild("exec:", child);
  Push("in the parent");
  Pop();
}

void CloseAll() {
  Wait();  // until the daemon has sent its welcome
  rlimit limit{4096, 4096};
  ::setrlimit(RLIMIT_NOFILE, &limit);
  char folder[] = "/tmp/lockstep-closeall-XXXXXX";
  if (::mkdtemp(folder) == nullptr) ::_exit(6);
  for (int fd = 3; fd < 4096; ++fd) ::close(fd);
  // The application's files get the numbers of the client's descriptors.
  for (int fd = 3; fd < 1500; ++fd) {
    const std::string name = std::string(folder) + "/" + std::to_string(fd);
    if (::open(name.c_str(), O_CREAT | O_RDWR, 0600) != fd) ::_exit(5);
  }
  PrintLine("closed");
  Wait();  // while the client notices it, reconnects and captures
  int dirty = 0;
  int missing = 0;
  for (int fd = 3; fd < 1500; ++fd) {
    struct stat info;
    if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
      ++missing;
    else if (info.st_size != 0)
      ++dirty;
    ::unlink((std::string(folder) + "/" + std::to_string(fd)).c_str());
  }
  ::rmdir(folder);
  PrintLine("dirty " + std::to_string(dirty) + " missing " + std::to_string(missing));
}

void Idle() {
  Wait();
  PrintLine(MapsContain("libcupti") || MapsContain("libcuda.so") ? "loaded CUDA's libraries"
                                                                 : "loaded nothing");
  PrintLine(MapsContain("libstdc++") ? "this program itself uses libstdc++" : "no libstdc++");
}

void Threads() {
  Wait();
  for (int task = 0; task < 100000; ++task) {
    const std::string status = "/proc/self/task/" + std::to_string(::getpid() + task) + "/status";
    std::ifstream file(status);
    std::string line;
    std::string name;
    while (std::getline(file, line)) {
      if (line.rfind("Name:", 0) == 0) name = line.substr(6);
      // All signals are blocked except two that libc reserves and two that cannot be blocked.
      if (name == "lockstep" && line.rfind("SigBlk:", 0) == 0) return PrintLine("blocked" + line.substr(7));
    }
  }
  PrintLine("no thread named lockstep");
}

void Environment() {
  for (const char* name : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN"}) {
    const char* value = ::getenv(name);
    PrintLine(std::string(name) + "=" + (value == nullptr ? "" : value));
  }
}

void Ranges() {
  for (int i = 0; i < 100; ++i) {
    Push("a range");
    Pop();
  }
  PrintLine("ready");
  Wait();
  for (int i = 0; i < 10; ++i) {
    Push("a range");
    Pop();
  }
  PrintLine("pushed");
  Wait();
}

// Makes calls of the real NCCL. They fail without a GPU or a communicator, but only after they reported to
// NVTX.
void NcclCalls() {
  void* nccl = ::dlopen(::getenv("LOCKSTEP_TEST_NCCL"), RTLD_NOW | RTLD_LOCAL);
  if (nccl == nullptr) return PrintLine(std::string("dlopen: ") + ::dlerror());
  const auto start = reinterpret_cast<int (*)()>(::dlsym(nccl, "ncclGroupStart"));
  const auto end = reinterpret_cast<int (*)()>(::dlsym(nccl, "ncclGroupEnd"));
  const auto unique_id = reinterpret_cast<int (*)(void*)>(::dlsym(nccl, "ncclGetUniqueId"));
  using Reduce = int (*)(const void*, void*, size_t, int type, int op, void* comm, void* stream);
  using Message = int (*)(const void*, size_t, int type, int peer, void* comm, void* stream);
  using Rooted = int (*)(const void*, void*, size_t, int type, int root, void* comm, void* stream);
  const auto all_reduce = reinterpret_cast<Reduce>(::dlsym(nccl, "ncclAllReduce"));
  const auto broadcast = reinterpret_cast<Rooted>(::dlsym(nccl, "ncclBroadcast"));
  const auto send = reinterpret_cast<Message>(::dlsym(nccl, "ncclSend"));
  const auto recv = reinterpret_cast<Message>(::dlsym(nccl, "ncclRecv"));
  // NCCL reads the communicator's hash before it checks whether the communicator is valid. This one is
  // invalid.
  static uint64_t no_comm[4 << 20];  // larger than any communicator
  for (uint64_t& word : no_comm) word = 0x1122334455667788;
  char id[128];
  unique_id(id);
  const auto call = [&] {
    all_reduce(nullptr, nullptr, 1000, 7, 2, no_comm, nullptr);  // float32, Max
    broadcast(nullptr, nullptr, 50, 8, 3, no_comm, nullptr);     // float64
    start();
    send(nullptr, 10, 6, 5, no_comm, nullptr);  // float16
    recv(nullptr, 12, 6, 4, no_comm, nullptr);
    end();
  };
  call();
  PrintLine("ready");
  Wait();
  call();
  PrintLine("called");
  Wait();
}

// Calls the real NCCL, which needs no GPU for groups. It loads the NVTX tool in NVTX_INJECTION64_PATH.
void Nccl() {
  void* nccl = ::dlopen(::getenv("LOCKSTEP_TEST_NCCL"), RTLD_NOW | RTLD_LOCAL);
  if (nccl == nullptr) return PrintLine(std::string("dlopen: ") + ::dlerror());
  const auto start = reinterpret_cast<int (*)()>(::dlsym(nccl, "ncclGroupStart"));
  const auto end = reinterpret_cast<int (*)()>(::dlsym(nccl, "ncclGroupEnd"));
  start();
  end();
  PrintLine("ready");
  Wait();
  for (int i = 0; i < 3; ++i) {
    start();
    end();
  }
  PrintLine("called");
  Wait();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string mode = argv[2];
  if (mode == "environment") {
    Environment();
    return 0;
  }
  Inject(argv[1]);
  if (mode == "fork") Fork();
  if (mode == "closeall") CloseAll();
  if (mode == "idle") Idle();
  if (mode == "threads") Threads();
  if (mode == "ranges") Ranges();
  if (mode == "injected-environment") Environment();
  if (mode == "nccl") Nccl();
  if (mode == "nccl-calls") NcclCalls();
  if (mode == "nothing") ::usleep(300000);
  return 42;
}
