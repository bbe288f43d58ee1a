// CUPTI as a table of function pointers: filled by dlopen when the first capture is armed, or by a test. The
// client never links libcupti.
#ifndef LOCKSTEP_CLIENT_CUPTI_API_H_
#define LOCKSTEP_CLIENT_CUPTI_API_H_

#include <cstdint>

#include "client/record/text.h"
#include "wire/foreign/cupti.h"

namespace lockstep::client {

struct CuptiApi {
  // Must be there.
  foreign::cupti::GetVersionFn GetVersion = nullptr;
  foreign::cupti::GetTimestampFn GetTimestamp = nullptr;
  foreign::cupti::ActivityRegisterCallbacksFn RegisterCallbacks = nullptr;
  foreign::cupti::ActivityEnableFn Enable = nullptr;
  foreign::cupti::ActivityDisableFn Disable = nullptr;
  foreign::cupti::ActivityFlushAllFn FlushAll = nullptr;
  foreign::cupti::ActivityGetNextRecordFn GetNextRecord = nullptr;
  foreign::cupti::ActivityGetNumDroppedRecordsFn GetNumDroppedRecords = nullptr;
  // May be null: older versions, or not needed for what was asked.
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
  foreign::cupti::SubscribeV2Fn Subscribe = nullptr;
  foreign::cupti::UnsubscribeFn Unsubscribe = nullptr;
};

// Bytes of a record of `kind` in the library behind `api`, 0 = a kind it does not know. Asks its own record
// parser, so it holds for whatever version was loaded; needs no driver.
size_t RecordBytes(const CuptiApi& api, foreign::cupti::ActivityKind kind);

// Finds and opens the CUPTI this process uses (never a second one beside it) and fills the table. False, with
// `why`, when there is none or it lacks a function. The library stays open. `wanted` is $LOCKSTEP_CUPTI_LIB
// or null.
bool OpenCupti(const char* wanted, CuptiApi* api, Sentence* why);

// Fills the table from an open library; false when a function that must be there is not.
bool ResolveCupti(void* library, CuptiApi* api, Sentence* why);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_CUPTI_API_H_
