// Otf2Archive writes an OTF2 archive to disk, through the official library.
#ifndef LOCKSTEP_FORMATS_OTF2_OTF2_ARCHIVE_H_
#define LOCKSTEP_FORMATS_OTF2_OTF2_ARCHIVE_H_

#include <otf2/otf2.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "formats/otf2/otf2_definitions.h"

namespace lockstep::formats {

// Keeps the library's first error message, which the library would print otherwise. The library has one error
// callback per process: at most one Otf2Errors may exist at a time, on one thread.
class Otf2Errors {
 public:
  Otf2Errors() { OTF2_Error_RegisterCallback(&Otf2Errors::Keep, this); }
  ~Otf2Errors() { OTF2_Error_RegisterCallback(nullptr, nullptr); }
  Otf2Errors(const Otf2Errors&) = delete;
  Otf2Errors& operator=(const Otf2Errors&) = delete;

  const std::string& first() const { return first_; }

 private:
  static OTF2_ErrorCode Keep(void* self, const char* file, uint64_t line, const char* function,
                             OTF2_ErrorCode code, const char* format, va_list arguments);
  std::string first_;
};

// The events of each location are written before those of the next, so that one buffer is enough. The first
// error ends all output, and Finish() returns it. One thread.
class Otf2Archive {
 public:
  using Attributes = std::initializer_list<std::pair<Otf2Attribute, std::optional<uint64_t>>>;
  struct CollectiveRecord {
    OTF2_CollectiveOp op;
    OTF2_CommRef communicator;
    uint32_t root;
    uint64_t sent, received;
  };
  struct MessageRecord {
    uint32_t partner;  // rank in the communicator
    OTF2_CommRef communicator;
    uint64_t bytes;
  };

  // Creates `folder` with traces.otf2 in it. Errors name the folder and give the library's message.
  static absl::StatusOr<std::unique_ptr<Otf2Archive>> Create(const std::string& folder);
  ~Otf2Archive();
  Otf2Archive(const Otf2Archive&) = delete;
  Otf2Archive& operator=(const Otf2Archive&) = delete;

  Otf2Definitions& definitions() { return definitions_; }

  // Stamps before `zero` are written as `zero`. Call it before the first event.
  void SetZero(JobTime zero) { zero_ = zero; }

  // The events that follow belong to this location, until the next call. Each location may begin once.
  void BeginLocation(OTF2_LocationRef location);
  // Events come in the order of time. A stamp before the previous one is written as the previous one.
  void Enter(JobTime at, OTF2_RegionRef region, const Attributes& attributes);
  void Leave(JobTime at, OTF2_RegionRef region);
  void CollectiveBegin(JobTime at);
  void CollectiveEnd(JobTime at, const CollectiveRecord& record, const Attributes& attributes);
  void Send(JobTime at, const MessageRecord& record);
  void Receive(JobTime at, const MessageRecord& record);

  bool failed() const { return !status_.ok(); }
  // Writes the definitions and closes the archive. `description` is free text.
  absl::Status Finish(const std::string& description);

 private:
  explicit Otf2Archive(std::string folder) : folder_(std::move(folder)) {}
  void Check(OTF2_ErrorCode code);
  void EndLocation();
  OTF2_TimeStamp Stamp(JobTime at);
  void Fill(const Attributes& attributes);
  void WriteDefinitions();

  const std::string folder_;
  Otf2Errors errors_;
  absl::Status status_;
  OTF2_Archive* archive_ = nullptr;
  OTF2_EvtWriter* writer_ = nullptr;
  std::unique_ptr<OTF2_AttributeList, OTF2_ErrorCode (*)(OTF2_AttributeList*)> attributes_{
      OTF2_AttributeList_New(), &OTF2_AttributeList_Delete};
  OTF2_LocationRef location_ = 0;
  JobTime zero_;
  OTF2_TimeStamp last_ = 0;      // of the current location
  OTF2_TimeStamp greatest_ = 0;  // of all locations
  Otf2Definitions definitions_;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_OTF2_OTF2_ARCHIVE_H_
