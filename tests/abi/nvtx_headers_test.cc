// Compares the project's declarations of NVTX with the real headers, if a CUDA toolkit is installed.
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <cstddef>

#include "tests/abi/same_as_header.h"
#include "wire/foreign/nvtx.h"
#include "wire/foreign/nvtx_payload.h"

namespace {

namespace nvtx = lockstep::foreign::nvtx;

TEST(NvtxDeclarations, StructsEqualTheHeaderFieldByField) {
  using Ours = nvtx::EventAttributes;
  using Theirs = nvtxEventAttributes_t;
  EXPECT_SAME_SIZE(Ours, Theirs);
  EXPECT_SAME_FIELD(Ours, version, Theirs, version);
  EXPECT_SAME_FIELD(Ours, size, Theirs, size);
  EXPECT_SAME_FIELD(Ours, payload_type, Theirs, payloadType);
  EXPECT_SAME_FIELD(Ours, payload_count, Theirs, reserved0);
  EXPECT_SAME_FIELD(Ours, payload, Theirs, payload);
  EXPECT_SAME_FIELD(Ours, message_type, Theirs, messageType);
  EXPECT_SAME_FIELD(Ours, message, Theirs, message);
  EXPECT_SAME_SIZE(nvtx::ExportTableCallbacks, NvtxExportTableCallbacks);
  EXPECT_SAME_FIELD(nvtx::ExportTableCallbacks, get_module_function_table, NvtxExportTableCallbacks,
                    GetModuleFunctionTable);
  EXPECT_SAME_SIZE(nvtx::ExportTableVersionInfo, NvtxExportTableVersionInfo);
  EXPECT_SAME_SIZE(nvtx::PayloadData, nvtxPayloadData_t);
  EXPECT_SAME_FIELD(nvtx::PayloadData, payload, nvtxPayloadData_t, payload);
  EXPECT_SAME_SIZE(nvtx::ExtensionInfo, nvtxExtModuleInfo_t);
  EXPECT_SAME_FIELD(nvtx::ExtensionInfo, segments, nvtxExtModuleInfo_t, segments);
  EXPECT_SAME_SIZE(nvtx::ExtensionSegment, nvtxExtModuleSegment_t);
  EXPECT_SAME_FIELD(nvtx::ExtensionSegment, function_slots, nvtxExtModuleSegment_t, functionSlots);
}

TEST(NvtxDeclarations, NumbersEqualTheHeader) {
  EXPECT_SAME_VALUE(nvtx::ExportTable::kCallbacks, NVTX_ETID_CALLBACKS);
  EXPECT_SAME_VALUE(nvtx::ExportTable::kVersionInfo, NVTX_ETID_VERSIONINFO);
  EXPECT_SAME_VALUE(nvtx::Module::kCore, NVTX_CB_MODULE_CORE);
  EXPECT_SAME_VALUE(nvtx::Module::kCore2, NVTX_CB_MODULE_CORE2);
  EXPECT_SAME_VALUE(nvtx::Core::kMarkEx, NVTX_CBID_CORE_MarkEx);
  EXPECT_SAME_VALUE(nvtx::Core::kRangeStartEx, NVTX_CBID_CORE_RangeStartEx);
  EXPECT_SAME_VALUE(nvtx::Core::kRangeEnd, NVTX_CBID_CORE_RangeEnd);
  EXPECT_SAME_VALUE(nvtx::Core::kRangePushEx, NVTX_CBID_CORE_RangePushEx);
  EXPECT_SAME_VALUE(nvtx::Core::kRangePushW, NVTX_CBID_CORE_RangePushW);
  EXPECT_SAME_VALUE(nvtx::Core::kRangePop, NVTX_CBID_CORE_RangePop);
  EXPECT_SAME_VALUE(nvtx::Core::kNameOsThreadW, NVTX_CBID_CORE_NameOsThreadW);
  EXPECT_SAME_VALUE(nvtx::kCoreSlots, NVTX_CBID_CORE_SIZE);
  EXPECT_SAME_VALUE(nvtx::Core2::kDomainMarkEx, NVTX_CBID_CORE2_DomainMarkEx);
  EXPECT_SAME_VALUE(nvtx::Core2::kDomainRangeStartEx, NVTX_CBID_CORE2_DomainRangeStartEx);
  EXPECT_SAME_VALUE(nvtx::Core2::kDomainRangePushEx, NVTX_CBID_CORE2_DomainRangePushEx);
  EXPECT_SAME_VALUE(nvtx::Core2::kDomainRangePop, NVTX_CBID_CORE2_DomainRangePop);
  EXPECT_SAME_VALUE(nvtx::Core2::kDomainRegisterStringA, NVTX_CBID_CORE2_DomainRegisterStringA);
  EXPECT_SAME_VALUE(nvtx::Core2::kDomainCreateA, NVTX_CBID_CORE2_DomainCreateA);
  EXPECT_SAME_VALUE(nvtx::Core2::kDomainDestroy, NVTX_CBID_CORE2_DomainDestroy);
  EXPECT_SAME_VALUE(nvtx::Core2::kInitialize, NVTX_CBID_CORE2_Initialize);
  EXPECT_SAME_VALUE(nvtx::kCore2Slots, NVTX_CBID_CORE2_SIZE);
  EXPECT_SAME_VALUE(nvtx::MessageType::kAscii, NVTX_MESSAGE_TYPE_ASCII);
  EXPECT_SAME_VALUE(nvtx::MessageType::kUnicode, NVTX_MESSAGE_TYPE_UNICODE);
  EXPECT_SAME_VALUE(nvtx::MessageType::kRegistered, NVTX_MESSAGE_TYPE_REGISTERED);
  EXPECT_SAME_VALUE(nvtx::PayloadType::kUint64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
  EXPECT_SAME_VALUE(nvtx::PayloadType::kFloat, NVTX_PAYLOAD_TYPE_FLOAT);
  EXPECT_SAME_VALUE(nvtx::PayloadType::kExtended, NVTX_PAYLOAD_TYPE_EXT);
  EXPECT_SAME_VALUE(nvtx::kNoPushPopTracking, NVTX_NO_PUSH_POP_TRACKING);
  EXPECT_SAME_VALUE(nvtx::kPayloadModuleId, NVTX_EXT_PAYLOAD_MODULEID);
  EXPECT_SAME_VALUE(nvtx::Payload::kSchemaRegister, NVTX3EXT_CBID_nvtxPayloadSchemaRegister);
  EXPECT_SAME_VALUE(nvtx::Payload::kRangePush, NVTX3EXT_CBID_nvtxRangePushPayload);
  EXPECT_SAME_VALUE(nvtx::Payload::kRangePop, NVTX3EXT_CBID_nvtxRangePopPayload);
  EXPECT_SAME_VALUE(nvtx::Payload::kDomainIsEnabled, NVTX3EXT_CBID_nvtxDomainIsEnabled);
  EXPECT_SAME_VALUE(nvtx::Payload::kEnumRegister, NVTX3EXT_CBID_nvtxPayloadEnumRegister);
  EXPECT_SAME_VALUE(nvtx::Payload::kMark, NVTX3EXT_CBID_nvtxMarkPayload);
  EXPECT_SAME_VALUE(nvtx::Payload::kRangeStart, NVTX3EXT_CBID_nvtxRangeStartPayload);
  EXPECT_SAME_VALUE(nvtx::Payload::kRangeEnd, NVTX3EXT_CBID_nvtxRangeEndPayload);
}

TEST(NvtxDeclarations, SchemasAndEnumerationsEqualTheHeader) {
  EXPECT_SAME_SIZE(nvtx::SchemaEntry, nvtxPayloadSchemaEntry_t);
  EXPECT_SAME_FIELD(nvtx::SchemaEntry, flags, nvtxPayloadSchemaEntry_t, flags);
  EXPECT_SAME_FIELD(nvtx::SchemaEntry, type, nvtxPayloadSchemaEntry_t, type);
  EXPECT_SAME_FIELD(nvtx::SchemaEntry, name, nvtxPayloadSchemaEntry_t, name);
  EXPECT_SAME_FIELD(nvtx::SchemaEntry, array_length, nvtxPayloadSchemaEntry_t, arrayOrUnionDetail);
  EXPECT_SAME_FIELD(nvtx::SchemaEntry, offset, nvtxPayloadSchemaEntry_t, offset);
  EXPECT_SAME_SIZE(nvtx::SchemaAttributes, nvtxPayloadSchemaAttr_t);
  EXPECT_SAME_FIELD(nvtx::SchemaAttributes, mask, nvtxPayloadSchemaAttr_t, fieldMask);
  EXPECT_SAME_FIELD(nvtx::SchemaAttributes, type, nvtxPayloadSchemaAttr_t, type);
  EXPECT_SAME_FIELD(nvtx::SchemaAttributes, entries, nvtxPayloadSchemaAttr_t, entries);
  EXPECT_SAME_FIELD(nvtx::SchemaAttributes, entry_count, nvtxPayloadSchemaAttr_t, numEntries);
  EXPECT_SAME_FIELD(nvtx::SchemaAttributes, bytes, nvtxPayloadSchemaAttr_t, payloadStaticSize);
  EXPECT_SAME_FIELD(nvtx::SchemaAttributes, id, nvtxPayloadSchemaAttr_t, schemaId);
  EXPECT_SAME_SIZE(nvtx::EnumEntry, nvtxPayloadEnum_t);
  EXPECT_SAME_FIELD(nvtx::EnumEntry, value, nvtxPayloadEnum_t, value);
  EXPECT_SAME_SIZE(nvtx::EnumAttributes, nvtxPayloadEnumAttr_t);
  EXPECT_SAME_FIELD(nvtx::EnumAttributes, entries, nvtxPayloadEnumAttr_t, entries);
  EXPECT_SAME_FIELD(nvtx::EnumAttributes, entry_count, nvtxPayloadEnumAttr_t, numEntries);
  EXPECT_SAME_FIELD(nvtx::EnumAttributes, id, nvtxPayloadEnumAttr_t, schemaId);
  EXPECT_SAME_VALUE(nvtx::kSchemaHasType, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE);
  EXPECT_SAME_VALUE(nvtx::kSchemaHasEntries, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES);
  EXPECT_SAME_VALUE(nvtx::kSchemaHasEntryCount, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES);
  EXPECT_SAME_VALUE(nvtx::kSchemaHasSize, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE);
  EXPECT_SAME_VALUE(nvtx::kSchemaHasId, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID);
  EXPECT_SAME_VALUE(nvtx::kEnumHasEntries, NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES);
  EXPECT_SAME_VALUE(nvtx::kEnumHasEntryCount, NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES);
  EXPECT_SAME_VALUE(nvtx::kEnumHasId, NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID);
  EXPECT_SAME_VALUE(nvtx::SchemaType::kStatic, NVTX_PAYLOAD_SCHEMA_TYPE_STATIC);
  EXPECT_SAME_VALUE(nvtx::SchemaType::kDynamic, NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC);
  EXPECT_SAME_VALUE(nvtx::kEntryPointer, NVTX_PAYLOAD_ENTRY_FLAG_POINTER);
  EXPECT_SAME_VALUE(nvtx::kEntryArrayFixed, NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE);
  EXPECT_SAME_VALUE(nvtx::kEntryMessage, NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE);
  EXPECT_SAME_VALUE(nvtx::kFirstStaticSchema, NVTX_PAYLOAD_SCHEMA_ID_STATIC_START);
  EXPECT_SAME_VALUE(nvtx::kFirstDynamicSchema, NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
  EXPECT_SAME_VALUE(nvtx::kEntryInt, NVTX_PAYLOAD_ENTRY_TYPE_INT);
  EXPECT_SAME_VALUE(nvtx::kEntryUint64, NVTX_PAYLOAD_ENTRY_TYPE_UINT64);
  EXPECT_SAME_VALUE(nvtx::kEntrySize, NVTX_PAYLOAD_ENTRY_TYPE_SIZE);
  EXPECT_SAME_VALUE(nvtx::kEntryByte, NVTX_PAYLOAD_ENTRY_TYPE_BYTE);
  EXPECT_SAME_VALUE(nvtx::kEntryTid64, NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT64);
  EXPECT_SAME_VALUE(nvtx::kEntryCstringUtf8, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8);
  EXPECT_SAME_VALUE(nvtx::kEntryRegisteredString, NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE);
}

}  // namespace
