#include "client/cupti/cupti_names.h"

#include <cstring>

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;

// "cudaLaunchKernel_v7000" and "cudaMemcpyAsync_ptsz_v7000" carry CUPTI's version suffix. Users know the
// functions without it.
size_t LengthWithoutVersion(const char* name) {
  size_t length = std::strlen(name);
  size_t digits = length;
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  if (digits < length && digits >= 2 && name[digits - 1] == 'v' && name[digits - 2] == '_')
    length = digits - 2;
  if (length >= 5 &&
      (std::memcmp(name + length - 5, "_ptsz", 5) == 0 || std::memcmp(name + length - 5, "_ptds", 5) == 0)) {
    length -= 5;
  }
  return length;
}

}  // namespace

void CuptiNames::Begin(const CuptiApi& api, Memory memory, StringIds& ids) {
  api_ = &api;
  names_.Reset(memory, &ids);
  std::memset(pointers_, 0, sizeof pointers_);
  std::memset(functions_, 0, sizeof functions_);
}

uint32_t CuptiNames::TextOf(ring::RingWriter& ring, const char* name) {
  if (name == nullptr) return 0;
  // Most kernel names repeat. The address is only a hint for the lookup, because a newly loaded module may
  // put another name there.
  const auto bits = reinterpret_cast<uintptr_t>(name);
  CachedPointer& cached = pointers_[(bits >> 4 ^ bits >> 14) % kPointerCache];
  if (cached.pointer == name && std::strcmp(cached.entry->text, name) == 0)
    return names_.Define(ring, *cached.entry);
  const size_t length = std::strlen(name);
  Interner::Entry* entry = names_.Find(name, length);
  if (entry == nullptr) return names_.Intern(ring, name, length);
  cached = {name, entry};
  return names_.Define(ring, *entry);
}

uint32_t CuptiNames::FunctionName(ring::RingWriter& ring, cupti::CallbackDomain domain, uint32_t cbid) {
  if (api_->GetCallbackName == nullptr || cbid >= kCallbackNames) return 0;
  Interner::Entry*& entry = functions_[domain == cupti::CallbackDomain::kDriverApi ? 1 : 0][cbid];
  if (entry == nullptr) {
    const char* name = nullptr;
    if (api_->GetCallbackName(domain, cbid, &name) != cupti::Result::kSuccess || name == nullptr) return 0;
    entry = names_.Find(name, LengthWithoutVersion(name));
    if (entry == nullptr) return names_.Intern(ring, name, LengthWithoutVersion(name));
  }
  return names_.Define(ring, *entry);
}

}  // namespace lockstep::client
