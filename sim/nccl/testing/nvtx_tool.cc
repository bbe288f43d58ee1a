// An NVTX tool for tests. It writes one line per NVTX call of a library to the file LOCKSTEP_TEST_NVTX_OUT.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "wire/foreign/nvtx_payload.h"

namespace {

namespace nvtx = lockstep::foreign::nvtx;

std::FILE* Out() {
  static std::FILE* const out = std::fopen(std::getenv("LOCKSTEP_TEST_NVTX_OUT"), "a");
  return out;
}

void PrintPayload(const nvtx::PayloadData* p) {
  std::fprintf(Out(), " %llu %zu:", static_cast<unsigned long long>(p->schema_id), p->size);
  for (size_t i = 8; i < p->size; ++i)
    std::fprintf(Out(), " %02x", static_cast<const unsigned char*>(p->payload)[i]);
}

nvtx::DomainHandle CreateDomain(const char* name) {
  std::fprintf(Out(), "domain %s\n", name);
  return strdup(name);
}
nvtx::StringHandle RegisterString(nvtx::DomainHandle, const char* text) { return strdup(text); }
int Push(nvtx::DomainHandle, const nvtx::EventAttributes* a) {
  std::fprintf(Out(), "push %s", static_cast<const char*>(a->message.registered));
  if (a->payload_type == nvtx::PayloadType::kExtended)
    PrintPayload(reinterpret_cast<const nvtx::PayloadData*>(a->payload.u64));
  std::fprintf(Out(), "\n");
  return 0;
}
int Pop(nvtx::DomainHandle) { return std::fprintf(Out(), "pop\n"), 0; }
int PopPayload(nvtx::DomainHandle, const nvtx::PayloadData* payload, size_t) {
  std::fprintf(Out(), "pop");
  PrintPayload(payload);
  return std::fprintf(Out(), "\n"), 0;
}
uint64_t RegisterSchema(nvtx::DomainHandle, const nvtx::SchemaAttributes* a) {
  std::fprintf(Out(), "schema %llu %zu", static_cast<unsigned long long>(a->id), a->bytes);
  for (size_t i = 0; i < a->entry_count; ++i) {
    std::fprintf(Out(), " | %s %llu %llu", a->entries[i].name,
                 static_cast<unsigned long long>(a->entries[i].type),
                 static_cast<unsigned long long>(a->entries[i].offset));
  }
  std::fprintf(Out(), "\n");
  return a->id;
}
uint64_t RegisterEnum(nvtx::DomainHandle, const nvtx::EnumAttributes* a) {
  std::fprintf(Out(), "enum %llu", static_cast<unsigned long long>(a->id));
  for (size_t i = 0; i < a->entry_count; ++i) std::fprintf(Out(), " %s", a->entries[i].name);
  std::fprintf(Out(), "\n");
  return a->id;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(nvtx::GetExportTableFn get) {
  const auto* callbacks = static_cast<const nvtx::ExportTableCallbacks*>(get(nvtx::ExportTable::kCallbacks));
  nvtx::FunctionTable table = nullptr;
  uint32_t slots = 0;
  if (callbacks->get_module_function_table(nvtx::Module::kCore2, &table, &slots) == 0) return 0;
  const auto set = [&](nvtx::Core2 slot, auto function) {
    *table[static_cast<uint32_t>(slot)] = reinterpret_cast<nvtx::FunctionPointer>(function);
  };
  set(nvtx::Core2::kDomainCreateA, CreateDomain);
  set(nvtx::Core2::kDomainRegisterStringA, RegisterString);
  set(nvtx::Core2::kDomainRangePushEx, Push);
  set(nvtx::Core2::kDomainRangePop, Pop);
  return 1;
}

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    nvtx::ExtensionInfo* info) {
  const auto set = [&](nvtx::Payload slot, auto function) {
    info->segments[0].function_slots[static_cast<size_t>(slot)] = reinterpret_cast<intptr_t>(function);
  };
  set(nvtx::Payload::kSchemaRegister, RegisterSchema);
  set(nvtx::Payload::kEnumRegister, RegisterEnum);
  set(nvtx::Payload::kRangePop, PopPayload);
  return 1;
}
