// ReadNsysSession(): reads the tables about an export's session: start, hosts and devices.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "formats/nsys/nsys_rows.h"

namespace lockstep::formats {
namespace {

constexpr size_t kMostVariables = 4096;

// Finds the UTC time of the file's time 0. Stamps count from the machine's start; older exports lack
// systemClockNs, and their stamps count from the session's start. With --ts-normalize, stamps are UTC.
void ReadBase(const SqliteDatabase& database, bool normalized, NsysFile& file) {
  if (normalized) return;
  constexpr const char* kColumns[] = {"utcEpochNs", "systemClockNs"};
  TableScan scan(database, "TARGET_INFO_SESSION_START_TIME", kColumns, 1, file.losses);
  if (!scan.Next()) return;
  const auto utc = scan.IntegerOr<int64_t>(0, 0);
  const auto machine = scan.IntegerOr<int64_t>(1, 0);
  int64_t base = 0;
  if (!scan.Usable()) return;
  if (__builtin_sub_overflow(utc, machine, &base) || base < -kFarthestNsysTime || base > kFarthestNsysTime) {
    return scan.Refuse("its time is impossible");
  }
  file.base = JobTime(base);
}

bool IsNormalized(const SqliteDatabase& database, NsysFile& file) {
  constexpr const char* kColumns[] = {"name", "value"};
  TableScan scan(database, "META_DATA_EXPORT", kColumns, 2, file.losses);
  bool normalized = false;
  while (scan.Next()) {
    if (scan.Text(0) == "EXPORT_PARAM_TIME_NORMALIZE") normalized = scan.Text(1) == "true";
  }
  return normalized;
}

// The value of a row with a name like PROCESS_0:ENVIRONMENT_VARIABLE is NAME="VALUE".
void ReadEnvironment(const SqliteDatabase& database, NsysFile& file) {
  constexpr const char* kColumns[] = {"name", "value"};
  TableScan scan(database, "META_DATA_CAPTURE", kColumns, 2, file.losses);
  while (scan.Next()) {
    if (!scan.Text(0).ends_with(":ENVIRONMENT_VARIABLE") || file.environment.size() >= kMostVariables)
      continue;
    const std::string_view text = scan.Text(1);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    std::string_view value = text.substr(equals + 1);
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
    file.environment.try_emplace(std::string(text.substr(0, equals)), value);
  }
}

void ReadHostNames(const SqliteDatabase& database, NsysFile& file) {
  constexpr const char* kColumns[] = {"name", "value", "globalVid"};
  TableScan scan(database, "TARGET_INFO_SYSTEM_ENV", kColumns, 2, file.losses);
  while (scan.Next()) {
    if (scan.Text(0) != "Hostname") continue;
    const std::string name(scan.Text(1));
    const auto machine = scan.IntegerOr<int64_t>(2, 0);
    if (scan.Usable()) file.host_names.try_emplace(machine, name);
  }
}

void ReadGpus(const SqliteDatabase& database, NsysFile& file) {
  constexpr const char* kGpu[] = {"id",
                                  "name",
                                  "smCount",
                                  "computeMajor",
                                  "computeMinor",
                                  "maxWarpsPerSm",
                                  "threadsPerWarp",
                                  "maxRegistersPerSm",
                                  "maxShmemPerSm",
                                  "totalMemory",
                                  "uuid",
                                  "memoryBandwidth",
                                  "l2CacheSize",
                                  "clockRate"};
  TableScan gpus(database, "TARGET_INFO_GPU", kGpu, 1, file.losses);
  while (gpus.Next()) {
    capture::DeviceProperties p;
    const auto id = gpus.IntegerOr<int64_t>(0, 0);
    p.name = std::string(gpus.Text(1));
    p.sms = gpus.IntegerOr<int32_t>(2, 0);
    p.compute_major = gpus.IntegerOr<int32_t>(3, 0);
    p.compute_minor = gpus.IntegerOr<int32_t>(4, 0);
    p.max_threads_per_sm = gpus.IntegerOr<uint16_t>(5, 0) * gpus.IntegerOr<uint8_t>(6, 0);
    p.registers_per_sm = gpus.IntegerOr<int32_t>(7, 0);
    p.shared_bytes_per_sm = gpus.IntegerOr<uint64_t>(8, 0);
    p.memory_bytes = gpus.IntegerOr<uint64_t>(9, 0);
    p.uuid = std::string(gpus.Text(10));
    p.memory_bytes_per_s = gpus.IntegerOr<uint64_t>(11, 0);
    p.l2_bytes = gpus.IntegerOr<uint64_t>(12, 0);
    p.clock_khz = static_cast<uint32_t>(
        std::min<uint64_t>(gpus.IntegerOr<uint64_t>(13, 0) / 1000, std::numeric_limits<uint32_t>::max()));
    if (gpus.Usable()) file.gpus.try_emplace(id, std::move(p));
  }
  constexpr const char* kDevice[] = {"gpuId", "cudaId", "pid"};
  TableScan devices(database, "TARGET_INFO_CUDA_DEVICE", kDevice, 3, file.losses);
  while (devices.Next()) {
    const std::optional<int64_t> gpu = devices.Integer(0);
    const DeviceId device(devices.IntegerOr<uint32_t>(1, 0));
    const auto pid = devices.IntegerOr<int32_t>(2, 0);
    if (devices.Usable() && gpu) file.gpu_of.try_emplace({pid, device}, *gpu);
  }
}

}  // namespace

void ReadNsysSession(const SqliteDatabase& database, NsysFile& file) {
  ReadBase(database, IsNormalized(database, file), file);
  ReadEnvironment(database, file);
  ReadHostNames(database, file);
  ReadGpus(database, file);
}

}  // namespace lockstep::formats
