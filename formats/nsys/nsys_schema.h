// Defines the nsys SQLite format, with docs/formats/nsys_sqlite.md: tables and columns of Nsight Systems' own
// export (schema 3.25). The golden file is in tests/golden/nsys.
#ifndef LOCKSTEP_FORMATS_NSYS_NSYS_SCHEMA_H_
#define LOCKSTEP_FORMATS_NSYS_NSYS_SCHEMA_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::formats::nsys {

// Schema version of the exports that our tables follow.
inline constexpr const char* kSchemaVersion[] = {"3", "25", "0"};

struct Table {
  const char* name;
  const char* columns;  // as in CREATE TABLE
};
// All tables of our exports, except the ENUM_ tables.
std::span<const Table> Tables();

struct EnumRow {
  int64_t id;
  const char* name;
  const char* label;
};
struct Enum {
  const char* table;
  std::span<const EnumRow> rows;
};
// The ENUM_ tables that our columns refer to.
std::span<const Enum> Enums();

// ---- Ids of a process or a thread of a machine, in 64 bits: 16 for the machine, 24 for the process, 24 for
// the thread.

inline constexpr int64_t kIdLimit = int64_t{1} << 24;
constexpr int64_t GlobalId(int64_t machine, int64_t pid, int64_t tid) {
  return machine << 48 | pid << 24 | tid;
}
constexpr int64_t ProcessOf(int64_t global_id) { return global_id & ~(kIdLimit - 1); }
constexpr int32_t PidOf(int64_t global_id) { return static_cast<int32_t>(global_id >> 24 & (kIdLimit - 1)); }
constexpr int64_t TidOf(int64_t global_id) { return global_id & (kIdLimit - 1); }

// ---- Values of NVTX_EVENTS.eventType

inline constexpr int64_t kMark = 34;
inline constexpr int64_t kPushPopRange = 59;
inline constexpr int64_t kStartEndRange = 60;
inline constexpr int64_t kTextMark = 65;  // from a text file merged by nvtxt
inline constexpr int64_t kTextPushPopRange = 70;
inline constexpr int64_t kTextStartEndRange = 71;
inline constexpr int64_t kDomainCreate = 75;

// Values of CUPTI_ACTIVITY_KIND_RUNTIME.eventClass
inline constexpr int64_t kRuntimeCall = 0;
inline constexpr int64_t kDriverCall = 1;

// ---- Kinds of memory: Nsight Systems numbers CUPTI's known kinds from 0, and puts the unknown kind last.

inline constexpr int64_t kUnknownMemory = 7;
constexpr int64_t MemoryKind(uint8_t cupti) { return cupti >= 1 && cupti <= 7 ? cupti - 1 : kUnknownMemory; }
constexpr uint8_t CuptiMemoryKind(int64_t kind) {
  return kind >= 0 && kind < kUnknownMemory ? static_cast<uint8_t>(kind + 1) : 0;
}

// Returns the short name of a kernel, as Nsight Systems shows it: "elementwise_kernel" for "void
// at::native::elementwise_kernel<128, 4>(int)".
std::string_view ShortKernelName(std::string_view name);

}  // namespace lockstep::formats::nsys

#endif  // LOCKSTEP_FORMATS_NSYS_NSYS_SCHEMA_H_
