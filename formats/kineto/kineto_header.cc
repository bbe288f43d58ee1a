#include "formats/kineto/kineto_header.h"

namespace lockstep::formats {
namespace {

void WriteProperties(const capture::RankData& rank, JsonText& out) {
  const capture::DeviceProperties& p = rank.properties;
  out.Add("\"deviceProperties\": [{\"id\": ", rank.device.value(), ", \"name\": ", Quoted{p.name},
          ", \"totalGlobalMem\": ", p.memory_bytes, ", \"computeMajor\": ", p.compute_major,
          ", \"computeMinor\": ", p.compute_minor,
          ", \"maxThreadsPerMultiprocessor\": ", p.max_threads_per_sm,
          ", \"regsPerMultiprocessor\": ", p.registers_per_sm,
          ", \"warpSize\": 32, \"sharedMemPerMultiprocessor\": ", p.shared_bytes_per_sm,
          ", \"numSms\": ", p.sms, "}],\n");
}

void WriteClock(const capture::HostClock& clock, JsonText& out) {
  out.Add(", \"drift_ppm\": ", static_cast<float>(clock.drift * 1e6), ", \"bound_ns\": ");
  if (clock.bound == Nanos::Max()) {
    out.Add("null");
  } else {
    out.Add(clock.bound.ns());
  }
}

// Other tools ignore members that they do not know.
void WriteOwnMember(const capture::Capture& capture, const capture::RankData& rank,
                    const capture::ClockModel& clock, Nanos base, Nanos shift, JsonText& out) {
  out.Add("\"lockstep\": {\"session\": ", Quoted{capture.id}, ", \"device\": ", rank.device.value(),
          ", \"incarnation\": ", rank.incarnation);
  if (!rank.properties.uuid.empty()) out.Add(", \"device_uuid\": ", Quoted{rank.properties.uuid});
  out.Add(", \"clock\": {\"shifted_ns\": ", shift.ns());
  if (rank.host < clock.hosts().size()) WriteClock(clock.hosts()[rank.host], out);
  // The window is on the clock of the rows' stamps, but in nanoseconds.
  out.Add("}, \"window\": {\"start_ns\": ", (Nanos(rank.window.start.ns()) + shift - base).ns(),
          ", \"length_ns\": ", rank.window.length().ns());
  out.Add("}, \"losses\": [");
  std::string_view separator;
  for (const capture::Loss& loss : rank.losses) {
    out.Add(separator, "{\"stage\": ", Quoted{loss.stage}, ", \"kind\": ", Quoted{loss.kind},
            ", \"records\": ", loss.records, ", \"reason\": ", Quoted{loss.reason}, "}");
    separator = ", ";
  }
  out.Add("]},\n");
}

}  // namespace

void WriteKinetoHeader(const capture::Capture& capture, const capture::RankData& rank,
                       const capture::ClockModel& clock, Nanos base, Nanos shift, JsonText& out) {
  // HTA takes the rank from the first line with `"rank": N`, with the blank. This member therefore comes
  // first, on its own line.
  out.Add("{\n\"schemaVersion\": 1,\n\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": ",
          rank.rank.value(), ", \"world_size\": ", capture.world_size, "},\n");
  if (rank.has_properties) WriteProperties(rank, out);
  if (rank.host < capture.hosts.size() && !capture.hosts[rank.host].name.empty())
    out.Add("\"host_name\": ", Quoted{capture.hosts[rank.host].name}, ",\n");
  WriteOwnMember(capture, rank, clock, base, shift, out);
  out.Add("\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": ", base.ns(), ",\n\"traceEvents\": [");
}

}  // namespace lockstep::formats
