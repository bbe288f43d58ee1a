// Exports the callback API of the simulated libcupti, and the ids of objects that the application has handles
// to.
#include <cstring>
#include <string>

#include "sim/cupti/library.h"

namespace sim = lockstep::sim;
namespace cupti = lockstep::foreign::cupti;
using cupti::ActivityKind;
using cupti::Result;

namespace {

sim::CuptiLibrary& Lib() { return sim::CuptiLibrary::Get(); }

// The subscriber's handle is its address in the library.
Result Subscribe(void** handle, const sim::Subscriber& subscriber, cupti::SubscriberParams* params) {
  const std::string* holder = Lib().Subscribe(subscriber, handle);
  if (holder == nullptr) return Result::kSuccess;
  if (params != nullptr && params->holder != nullptr && params->holder_bytes > 0) {
    const std::string name = cupti::kSubscriberPrefix + *holder;
    const size_t n = name.copy(params->holder, params->holder_bytes - 1);
    params->holder[n] = '\0';
  }
  return Result::kMultipleSubscribersNotSupported;
}

}  // namespace

LOCKSTEP_SIM_EXPORT Result cuptiSubscribe(void** handle, cupti::CallbackFn callback, void* user_data) {
  if (!Lib().Usable()) return Result::kUnknown;
  if (handle == nullptr || callback == nullptr) return Result::kInvalidParameter;
  return Subscribe(handle, {callback, user_data, ""}, nullptr);
}

LOCKSTEP_SIM_EXPORT Result cuptiSubscribe_v2(void** handle, cupti::CallbackFn callback, void* user_data,
                                             cupti::SubscriberParams* params) {
  if (!Lib().Usable()) return Result::kUnknown;
  if (handle == nullptr || callback == nullptr) return Result::kInvalidParameter;
  if (params != nullptr && params->struct_size < sizeof *params) return Result::kInvalidParameter;
  const char* name = params == nullptr ? nullptr : params->name;
  return Subscribe(handle, {callback, user_data, name == nullptr ? "" : name}, params);
}

LOCKSTEP_SIM_EXPORT Result cuptiUnsubscribe(void* handle) {
  if (!Lib().Usable()) return Result::kUnknown;
  return Lib().Unsubscribe(handle) ? Result::kSuccess : Result::kInvalidParameter;
}

LOCKSTEP_SIM_EXPORT Result cuptiEnableCallback(uint32_t enable, void* handle, cupti::CallbackDomain domain,
                                               uint32_t cbid) {
  if (!Lib().Holds(handle)) return Result::kInvalidParameter;
  Lib().EnableCall(domain, cbid, enable != 0);
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiEnableDomain(uint32_t enable, void* handle, cupti::CallbackDomain domain) {
  if (!Lib().Holds(handle)) return Result::kInvalidParameter;
  Lib().EnableDomain(domain, enable != 0);
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiGetDeviceId(cupti::Context, uint32_t* device) {
  if (!Lib().Usable()) return Result::kUnknown;
  if (device == nullptr) return Result::kInvalidParameter;
  *device = Lib().FirstId(ActivityKind::kDevice);
  return Result::kSuccess;
}

LOCKSTEP_SIM_EXPORT Result cuptiGetContextId(cupti::Context context, uint32_t* id) {
  if (!Lib().Usable()) return Result::kUnknown;
  if (id == nullptr) return Result::kInvalidParameter;
  *id = Lib().IdOf(ActivityKind::kContext, context);
  return *id != 0 ? Result::kSuccess : Result::kInvalidParameter;
}

LOCKSTEP_SIM_EXPORT Result cuptiGetStreamIdEx(cupti::Context, void* stream, uint8_t, uint32_t* id) {
  if (!Lib().Usable()) return Result::kUnknown;
  if (id == nullptr) return Result::kInvalidParameter;
  *id = Lib().IdOf(ActivityKind::kStream, stream);
  return *id != 0 ? Result::kSuccess : Result::kInvalidParameter;
}
