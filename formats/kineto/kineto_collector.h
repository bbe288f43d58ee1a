// KinetoCollector converts rows into the tables of a KinetoFile.
#ifndef LOCKSTEP_FORMATS_KINETO_KINETO_COLLECTOR_H_
#define LOCKSTEP_FORMATS_KINETO_KINETO_COLLECTOR_H_

#include <deque>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "formats/common/read_options.h"
#include "formats/kineto/kineto_collectives.h"
#include "formats/kineto/kineto_file.h"
#include "formats/kineto/kineto_row.h"

namespace lockstep::formats {

// One thread may use it. `file` outlives the collector.
class KinetoCollector {
 public:
  KinetoCollector(KinetoFile& file, HostDetail host) : file_(file), host_(host), collectives_(file) {}

  // false: the row lacks a usable time or a field that its category needs. The collector keeps no part of it.
  bool Add(const KinetoRow& row);

 private:
  // Properties of a name's text, computed once per text.
  struct Name {
    NameId id;
    bool data_loader = false;
    capture::CopyDetail copy;
  };

  const Name& Intern(std::string_view token);
  KinetoDevice& DeviceOf(const KinetoRow& row);
  void AddDeviceRow(const KinetoRow& row, HostTime start, HostTime end);
  uint32_t AddKernelDetail(const RowArgs& args, KinetoDevice& device);
  uint32_t AddCopyDetail(const RowArgs& args, const capture::CopyDetail& from_name, KinetoDevice& device);
  void AddApiCall(const KinetoRow& row, HostTime start, HostTime end);
  void AddCounters(const KinetoRow& row);
  void AddSync(const KinetoRow& row, HostTime start, HostTime end);
  void AddOperator(const KinetoRow& row, HostTime start, HostTime end);
  void AddRange(const KinetoRow& row, const Name& name, HostTime start, HostTime end);
  void AddFrame(const KinetoRow& row, capture::FrameKind kind, HostTime start, HostTime end);
  NameId InternArgument(std::string_view token);
  void AddAllocation(const KinetoRow& row, HostTime time);
  ThreadId ThreadOf(std::string_view token);
  void SeeProcess(std::string_view token);

  KinetoFile& file_;
  const HostDetail host_;
  std::deque<std::string> tokens_;  // the keys of names_ and arguments_ point into these
  absl::flat_hash_map<std::string_view, Name> names_;
  absl::flat_hash_map<std::string_view, NameId> arguments_;
  absl::flat_hash_map<std::string, ThreadId> named_threads_;
  KinetoCollectives collectives_;
  size_t last_device_ = 0;
  simdjson::ondemand::parser unescaper_;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_KINETO_COLLECTOR_H_
