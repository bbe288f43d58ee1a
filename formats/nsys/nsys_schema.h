// Home of the nsys SQLite format, with docs/formats/nsys_sqlite.md: tables and columns as Nsight Systems' own
// export has them (schema 3.25), and the LOCKSTEP_ tables that we add to what we write. The golden file is
// tests/golden/nsys.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NSYS_SCHEMA_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NSYS_SCHEMA_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::trace::nsys {

// Of the export that our tables are like.
inline constexpr const char* kSchemaVersion[] = {"3", "25", "0"};
// Of the LOCKSTEP_ tables. A reader of another version takes a file for an export of Nsight Systems.
inline constexpr std::string_view kOwnVersion = "1";

struct Table {
  const char* name;
  const char* columns;  // as CREATE TABLE has them
};
// All that an export of ours has, ENUM_ tables aside.
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
// Those that columns of ours refer to.
std::span<const Enum> Enums();

// ---- ids that name a process or a thread of a machine in 64 bits: 16 of the machine, 24 of the process, 24
// of the thread.

inline constexpr int64_t kIdLimit = int64_t{1} << 24;
constexpr int64_t GlobalId(int64_t machine, int64_t pid, int64_t tid) {
  return machine << 48 | pid << 24 | tid;
}
constexpr int64_t ProcessOf(int64_t global_id) { return global_id & ~(kIdLimit - 1); }
constexpr int32_t PidOf(int64_t global_id) { return static_cast<int32_t>(global_id >> 24 & (kIdLimit - 1)); }
constexpr int64_t TidOf(int64_t global_id) { return global_id & (kIdLimit - 1); }

// ---- eventType of NVTX_EVENTS

inline constexpr int64_t kMark = 34;
inline constexpr int64_t kPushPopRange = 59;
inline constexpr int64_t kStartEndRange = 60;
inline constexpr int64_t kTextMark = 65;  // nvtxt: of a text file that was merged in
inline constexpr int64_t kTextPushPopRange = 70;
inline constexpr int64_t kTextStartEndRange = 71;
inline constexpr int64_t kDomainCreate = 75;

// eventClass of CUPTI_ACTIVITY_KIND_RUNTIME
inline constexpr int64_t kRuntimeCall = 0;
inline constexpr int64_t kDriverCall = 1;

// ---- kinds of memory: Nsight Systems counts from CUPTI's first known one, and has the unknown last.

inline constexpr int64_t kUnknownMemory = 7;
constexpr int64_t MemoryKind(uint8_t cupti) { return cupti >= 1 && cupti <= 7 ? cupti - 1 : kUnknownMemory; }
constexpr uint8_t CuptiMemoryKind(int64_t kind) {
  return kind >= 0 && kind < kUnknownMemory ? static_cast<uint8_t>(kind + 1) : 0;
}

// "elementwise_kernel" of "void at::native::elementwise_kernel<128, 4>(int)": what Nsight Systems shows for
// short.
std::string_view ShortKernelName(std::string_view name);

}  // namespace lockstep::trace::nsys

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NSYS_SCHEMA_H_
