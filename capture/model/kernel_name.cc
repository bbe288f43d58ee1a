#include "capture/model/kernel_name.h"

// libiberty declares basename() in its own way unless it is told that there is one.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>

#include <csetjmp>
#include <cstddef>
#include <cstring>
#include <memory>

namespace lockstep::store {
namespace {

constexpr size_t kLongestName = 16 * 1024;

struct Output {
  char text[kLongestName];
  size_t size;
  std::jmp_buf too_long;
};

// abi::__cxa_demangle cannot be stopped; this one hands its text out in pieces.
void Append(const char* piece, size_t size, void* opaque) {
  auto* const out = static_cast<Output*>(opaque);
  // The demangler is C that holds nothing on the heap while it prints, so leaving it this way skips no
  // clean-up.
  if (size > kLongestName - out->size) std::longjmp(out->too_long, 1);
  std::memcpy(out->text + out->size, piece, size);
  out->size += size;
}

// No object with a destructor lives here: the jump would skip it.
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

}  // namespace lockstep::store
