#include "daemon/stacks/native_stack.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log/clean_text.h"

namespace lockstep::daemon {
namespace {

constexpr size_t kLongestFile = 160;
constexpr size_t kLongestSymbol = 1024;

// Files whose threads are of interest beside the main one.
constexpr const char* kLibraries[] = {"libcuda.so", "libcudart.so", "libnccl.so"};

struct EndDwfl {
  void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
};

std::string FileOf(const char* path) {
  const char* const slash = path == nullptr ? nullptr : std::strrchr(path, '/');
  return CleanText(slash != nullptr ? slash + 1 : path == nullptr ? "" : path, kLongestFile);
}

class Unwinder {
 public:
  Unwinder(pid_t pid, const Memory& memory, const std::vector<ThreadSnapshot>& threads)
      : pid_(pid), memory_(memory), threads_(threads) {}

  // Returns the reason if the process's libraries cannot be read.
  std::string Open(std::string_view maps) {
    static const Dwfl_Callbacks callbacks = {.find_elf = &FindElf,
                                             .find_debuginfo = &FindNoDebugInfo,
                                             .section_address = nullptr,
                                             .debuginfo_path = nullptr};
    dwfl_.reset(dwfl_begin(&callbacks));
    if (dwfl_ == nullptr) return dwfl_errmsg(-1);
    dwfl_report_begin(dwfl_.get());
    std::string text(maps);
    const std::unique_ptr<FILE, int (*)(FILE*)> file(
        fmemopen(text.data(), std::max<size_t>(text.size(), 1), "r"), &fclose);
    if (file == nullptr || dwfl_linux_proc_maps_report(dwfl_.get(), file.get()) != 0)
      return "its mappings are not readable";
    dwfl_report_end(dwfl_.get(), nullptr, nullptr);
    dwfl_getmodules(dwfl_.get(), &SetOwner, this, 0);
    static const Dwfl_Thread_Callbacks of_threads = {.next_thread = &NextThread,
                                                     .get_thread = &GetThread,
                                                     .memory_read = &ReadWord,
                                                     .set_initial_registers = &SetRegisters,
                                                     .detach = nullptr,
                                                     .thread_detach = nullptr};
    if (!dwfl_attach_state(dwfl_.get(), nullptr, pid_, &of_threads, this)) return dwfl_errmsg(-1);
    return "";
  }

  v1::NativeStack Stack(const ThreadSnapshot& thread) {
    v1::NativeStack stack;
    stack.set_tid(thread.tid);
    stack.set_thread(thread.name);
    current_ = &thread;
    frames_ = &stack;
    // It returns an error at the end of some stacks.
    dwfl_getthread_frames(dwfl_.get(), thread.tid, &OnFrame, this);
    return stack;
  }

 private:
  static const ThreadSnapshot* Find(const Unwinder& self, pid_t tid) {
    for (const ThreadSnapshot& thread : self.threads_) {
      if (thread.tid == tid) return &thread;
    }
    return nullptr;
  }
  static pid_t NextThread(Dwfl*, void*, void**) { return 0; }
  static bool GetThread(Dwfl*, pid_t tid, void* self, void** thread) {
    *thread = self;
    return Find(*static_cast<Unwinder*>(self), tid) != nullptr;
  }
  static bool SetRegisters(Dwfl_Thread* thread, void* self) {
    Dwarf_Word registers[ThreadSnapshot::kRegisters];
    const ThreadSnapshot& from = *static_cast<Unwinder*>(self)->current_;
    std::copy(std::begin(from.registers), std::end(from.registers), registers);
    return dwfl_thread_state_registers(thread, 0, ThreadSnapshot::kRegisters, registers);
  }
  static bool ReadWord(Dwfl*, Dwarf_Addr address, Dwarf_Word* result, void* argument) {
    const auto& self = *static_cast<Unwinder*>(argument);
    const ThreadSnapshot& thread = *self.current_;
    const uint64_t offset = address - thread.stack_pointer();
    if (offset < thread.stack.size() && thread.stack.size() - offset >= sizeof(*result)) {
      std::memcpy(result, thread.stack.data() + offset, sizeof(*result));
      return true;
    }
    return self.memory_.Read(address, result, sizeof(*result));
  }
  static int OnFrame(Dwfl_Frame* frame, void* argument) {
    auto& self = *static_cast<Unwinder*>(argument);
    Dwarf_Addr address = 0;
    bool is_activation = false;
    if (!dwfl_frame_pc(frame, &address, &is_activation)) return DWARF_CB_ABORT;
    if (self.frames_->frames_size() == kMostNativeFrames) {
      self.frames_->set_more(true);
      return DWARF_CB_ABORT;
    }
    // A return address may be the first of another function.
    if (!is_activation) --address;
    v1::NativeFrame& to = *self.frames_->add_frames();
    Dwfl_Module* const module = dwfl_addrmodule(self.dwfl_.get(), address);
    if (module == nullptr) return DWARF_CB_OK;
    if (const char* symbol = dwfl_module_addrname(module, address); symbol != nullptr)
      to.set_symbol(CleanText(symbol, kLongestSymbol));
    to.set_file(
        FileOf(dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr)));
    return DWARF_CB_OK;
  }

  static int SetOwner(Dwfl_Module*, void** userdata, const char*, Dwarf_Addr, void* self) {
    *userdata = self;
    return DWARF_CB_OK;
  }
  static int FindElf(Dwfl_Module* module, void** userdata, const char* name, Dwarf_Addr base, char** found,
                     Elf** elf) {
    if (name[0] != '/') return dwfl_linux_proc_find_elf(module, userdata, name, base, found, elf);
    const auto* const self = static_cast<const Unwinder*>(*userdata);
    if (self == nullptr) return -1;
    const std::string path = absl::StrCat("/proc/", self->pid_, "/root", name);
    // The flags keep a pipe or a device from blocking or harming us.
    return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  }
  static int FindNoDebugInfo(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*,
                             GElf_Word, char**) {
    return -1;
  }

  const pid_t pid_;
  const Memory& memory_;
  const std::vector<ThreadSnapshot>& threads_;
  std::unique_ptr<Dwfl, EndDwfl> dwfl_;
  const ThreadSnapshot* current_ = nullptr;
  v1::NativeStack* frames_ = nullptr;
};

bool IsInLibraries(const v1::NativeStack& stack) {
  return std::any_of(stack.frames().begin(), stack.frames().end(), [](const v1::NativeFrame& frame) {
    return std::any_of(std::begin(kLibraries), std::end(kLibraries),
                       [&](const char* library) { return absl::StartsWith(frame.file(), library); });
  });
}

}  // namespace

void AddNativeStacks(pid_t pid, std::string_view maps, const Memory& memory,
                     const std::vector<ThreadSnapshot>& threads, v1::ProcessStacks& stacks) {
  Unwinder unwinder(pid, memory, threads);
  if (const std::string problem = unwinder.Open(maps); !problem.empty()) {
    stacks.set_native_problem(problem);
    return;
  }
  for (const ThreadSnapshot& thread : threads) {
    if (stacks.native_size() == kMostNativeStacks) return;
    v1::NativeStack stack = unwinder.Stack(thread);
    if (thread.tid == pid || IsInLibraries(stack)) *stacks.add_native() = std::move(stack);
  }
}

}  // namespace lockstep::daemon
