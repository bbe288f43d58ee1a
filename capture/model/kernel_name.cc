#include "capture/model/kernel_name.h"

// libiberty declares basename() in its own way unless this macro says that a declaration exists.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>

#include <csetjmp>
#include <cstddef>
#include <cstring>
#include <memory>

namespace lockstep::capture {
namespace {

constexpr size_t kLongestName = 16 * 1024;

struct Output {
  char text[kLongestName];
  size_t size;
  std::jmp_buf too_long;
};

// abi::__cxa_demangle cannot be stopped midway. This demangler hands out its text in pieces.
void Append(const char* piece, size_t size, void* opaque) {
  auto* const out = static_cast<Output*>(opaque);
  // The demangler is C code that holds no heap memory while it prints. So this jump skips no clean-up.
  if (size > kLongestName - out->size) std::longjmp(out->too_long, 1);
  std::memcpy(out->text + out->size, piece, size);
  out->size += size;
}

// No object with a destructor may live here, because the jump would skip the destructor.
bool Demangle(const char* mangled, Output* out) {
  if (setjmp(out->too_long) != 0) return false;
  return cplus_demangle_v3_callback(mangled, DMGL_PARAMS | DMGL_ANSI, Append, out) != 0;
}

}  // namespace

std::string DemangledKernelName(std::string_view name) {
  if (!name.starts_with("_Z") || name.size() > kLongestName) return "";
  const std::string terminated(name);
  const auto out = std::make_unique<Output>();
  if (!Demangle(terminated.c_str(), out.get())) return "";
  return {out->text, out->size};
}

}  // namespace lockstep::capture
