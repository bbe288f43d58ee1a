// Turns rows into the tables of a KinetoFile.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_KINETO_COLLECTOR_H_
#define LOCKSTEP_AGGREGATOR_TRACE_KINETO_COLLECTOR_H_

#include <deque>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "formats/kineto/kineto_file.h"
#include "formats/kineto/kineto_row.h"

namespace lockstep::trace {

// One thread. `file` outlives the collector.
class KinetoCollector {
 public:
  KinetoCollector(KinetoFile& file, HostDetail host) : file_(file), host_(host) {}

  // false: the row has no usable time, or none of what its category must have; nothing of it is kept.
  bool Add(const KinetoRow& row);

 private:
  // What is known of a name's text, so that it is looked at once.
  struct Name {
    NameId id;
    bool data_loader = false;
    store::CopyDetail copy;
  };

  const Name& Intern(std::string_view token);
  KinetoDevice& DeviceOf(const KinetoRow& row);
  void AddDeviceRow(const KinetoRow& row, HostTime start, HostTime end);
  uint32_t AddKernelDetail(const RowArgs& args, KinetoDevice& device);
  uint32_t AddCopyDetail(const RowArgs& args, const store::CopyDetail& from_name, KinetoDevice& device);
  uint32_t AddCollective(const RowArgs& args, KinetoDevice& device);
  uint32_t GroupOf(const RowArgs& args);
  void AddApiCall(const KinetoRow& row, HostTime start, HostTime end);
  void AddSync(const KinetoRow& row, HostTime start, HostTime end);
  void AddOperator(const KinetoRow& row, HostTime start, HostTime end);
  void AddRange(const KinetoRow& row, const Name& name, HostTime start, HostTime end);
  void AddFrame(const KinetoRow& row, store::FrameKind kind, HostTime start, HostTime end);
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
  absl::flat_hash_map<std::string, uint32_t> groups_;
  size_t last_device_ = 0;
  simdjson::ondemand::parser unescaper_;
};

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_KINETO_COLLECTOR_H_
