// JournaledFiles collects the ends of a capture's files from its journal, for RecordsWriter::Continue.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_JOURNALED_FILES_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_JOURNALED_FILES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "aggregator/captures/capture_journal.h"
#include "aggregator/captures/capture_ranks.h"
#include "capture/store/records_writer.h"
#include "lockstep/v1/journal.pb.h"

namespace lockstep::aggregator {

class JournaledFiles {
 public:
  explicit JournaledFiles(const CaptureRanks& ranks) : ranks_(ranks) {}

  void Add(const v1::JournalStored& stored) {
    const v1::FromDaemon& message = stored.message();
    const size_t rank = ranks_.Find(stored.node_id(), JournaledProcess(message));
    if (rank == ranks_.all().size()) return;
    const auto process = static_cast<uint32_t>(rank);
    if (message.has_batch()) incarnations_[process] = message.batch().incarnation();
    if (!stored.file().empty())
      records_[{process, incarnations_[process]}] = {stored.file(), stored.file_bytes()};
    if (message.has_trace_file()) AddPiece(process, message.trace_file(), stored.piece_bytes());
  }

  std::vector<capture::KeptRecords> records() const {
    std::vector<capture::KeptRecords> out;
    for (const auto& [key, end] : records_) out.push_back({key, end});
    return out;
  }
  std::vector<capture::KeptTrace> traces() const {
    std::vector<capture::KeptTrace> out;
    for (const auto& [key, trace] : traces_) out.push_back(trace);
    return out;
  }

 private:
  void AddPiece(uint32_t process, const v1::TraceFile& piece, uint64_t bytes) {
    const auto kind = piece.kind() == v1::TraceFile::PYTHON_PROFILE ? capture::TraceFileKind::kPythonProfile
                                                                    : capture::TraceFileKind::kKineto;
    if (!piece.given_up().empty()) {
      traces_.erase({process, kind});
      return;
    }
    const RankId rank(ranks_.at(process).seen.rank.rank());
    traces_[{process, kind}] = {{rank, process, kind}, piece.offset() + bytes, piece.last()};
  }

  const CaptureRanks& ranks_;
  std::map<uint32_t, uint64_t> incarnations_;  // the newest of each process
  std::map<capture::SegmentKey, capture::FileEnd> records_;
  std::map<std::pair<uint32_t, capture::TraceFileKind>, capture::KeptTrace> traces_;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_JOURNALED_FILES_H_
