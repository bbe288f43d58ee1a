// CUPTI as a table of function pointers. dlopen fills it when the first capture is armed, or a test does. The
// client never links libcupti.
#ifndef LOCKSTEP_CLIENT_CUPTI_CUPTI_API_H_
#define LOCKSTEP_CLIENT_CUPTI_CUPTI_API_H_

#include <cstdint>

#include "client/record/text.h"
#include "wire/foreign/cupti.h"

namespace lockstep::client {

struct CuptiApi {
  // Required functions.
  foreign::cupti::GetVersionFn GetVersion = nullptr;
  foreign::cupti::GetTimestampFn GetTimestamp = nullptr;
  foreign::cupti::ActivityRegisterCallbacksFn RegisterCallbacks = nullptr;
  foreign::cupti::ActivityEnableFn Enable = nullptr;
  foreign::cupti::ActivityDisableFn Disable = nullptr;
  foreign::cupti::ActivityFlushAllFn FlushAll = nullptr;
  foreign::cupti::ActivityGetNextRecordFn GetNextRecord = nullptr;
  foreign::cupti::ActivityGetNumDroppedRecordsFn GetNumDroppedRecords = nullptr;
  // May be null in older versions, or if the capture does not need them.
  foreign::cupti::GetResultStringFn GetResultString = nullptr;
  foreign::cupti::GetCallbackNameFn GetCallbackName = nullptr;
  foreign::cupti::SetThreadIdTypeFn SetThreadIdType = nullptr;
  foreign::cupti::GetThreadIdTypeFn GetThreadIdType = nullptr;
  foreign::cupti::ActivityPushExternalCorrelationIdFn PushExternalCorrelationId = nullptr;
  foreign::cupti::ActivityPopExternalCorrelationIdFn PopExternalCorrelationId = nullptr;
  foreign::cupti::ActivityEnableRuntimeApiFn EnableRuntimeApi = nullptr;
  foreign::cupti::ActivityEnableDriverApiFn EnableDriverApi = nullptr;
  foreign::cupti::ActivityEnableAllSyncRecordsFn EnableAllSyncRecords = nullptr;
  foreign::cupti::ActivityEnableAndDumpFn EnableAndDump = nullptr;
  foreign::cupti::ActivityGetAttributeFn GetAttribute = nullptr;
  foreign::cupti::ActivitySetAttributeFn SetAttribute = nullptr;
  foreign::cupti::SubscribeV2Fn Subscribe = nullptr;
  foreign::cupti::UnsubscribeFn Unsubscribe = nullptr;
};

// Returns the length in bytes of a record of `kind` in the library behind `api`, 0 for an unknown kind. It
// asks the library's own record parser, so it holds for any loaded version. It needs no driver.
size_t RecordBytes(const CuptiApi& api, foreign::cupti::ActivityKind kind);

// Finds and opens the CUPTI that this process uses, never a second one, and fills the table. Returns false
// with `why` if there is none, or if it lacks a function. The library stays open. `wanted` is
// $LOCKSTEP_CUPTI_LIB or null.
bool OpenCupti(const char* wanted, CuptiApi* api, Sentence* why);

// Fills the table from an open library. Returns false if a required function is missing.
bool ResolveCupti(void* library, CuptiApi* api, Sentence* why);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_CUPTI_CUPTI_API_H_
