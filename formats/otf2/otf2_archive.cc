#include "formats/otf2/otf2_archive.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace lockstep::formats {
namespace {

constexpr uint64_t kEventChunk = 1 << 20;
constexpr uint64_t kDefinitionChunk = 4 << 20;

OTF2_FlushType FlushAlways(void*, OTF2_FileType, OTF2_LocationRef, void*, bool) { return OTF2_FLUSH; }
// A post-flush function is not needed, because the archive does not record its own flushes.
constexpr OTF2_FlushCallbacks kFlush = {.otf2_pre_flush = &FlushAlways, .otf2_post_flush = nullptr};

}  // namespace

OTF2_ErrorCode Otf2Errors::Keep(void* self, const char*, uint64_t, const char* function, OTF2_ErrorCode code,
                                const char* format, va_list arguments) {
  std::string& first = static_cast<Otf2Errors*>(self)->first_;
  if (!first.empty()) return code;
  char text[512] = "";
  if (format != nullptr) std::vsnprintf(text, sizeof text, format, arguments);
  first = absl::StrCat(OTF2_Error_GetDescription(code), " in ", function, text[0] == '\0' ? "" : ": ", text);
  return code;
}

absl::StatusOr<std::unique_ptr<Otf2Archive>> Otf2Archive::Create(const std::string& folder) {
  std::unique_ptr<Otf2Archive> made(new Otf2Archive(folder));
  made->archive_ = OTF2_Archive_Open(folder.c_str(), "traces", OTF2_FILEMODE_WRITE, kEventChunk,
                                     kDefinitionChunk, OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
  if (made->archive_ == nullptr || made->attributes_ == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot create the OTF2 archive ", folder, ": ", made->errors_.first()));
  }
  made->Check(OTF2_Archive_SetFlushCallbacks(made->archive_, &kFlush, nullptr));
  made->Check(OTF2_Archive_SetSerialCollectiveCallbacks(made->archive_));
  made->Check(OTF2_Archive_SetCreator(made->archive_, "Lockstep"));
  made->Check(OTF2_Archive_OpenEvtFiles(made->archive_));
  if (made->failed()) return made->status_;
  return made;
}

Otf2Archive::~Otf2Archive() {
  if (archive_ != nullptr) OTF2_Archive_Close(archive_);
}

void Otf2Archive::Check(OTF2_ErrorCode code) {
  if (code == OTF2_SUCCESS || failed()) return;
  const std::string message = errors_.first().empty() ? OTF2_Error_GetDescription(code) : errors_.first();
  status_ = absl::UnavailableError(absl::StrCat("cannot write the OTF2 archive ", folder_, ": ", message));
}

void Otf2Archive::BeginLocation(OTF2_LocationRef location) {
  EndLocation();
  if (failed()) return;
  location_ = location;
  last_ = 0;
  writer_ = OTF2_Archive_GetEvtWriter(archive_, location);
  if (writer_ == nullptr) Check(OTF2_ERROR_MEM_ALLOC_FAILED);
}

void Otf2Archive::EndLocation() {
  if (writer_ == nullptr) return;
  Check(OTF2_EvtWriter_GetNumberOfEvents(writer_, &definitions_.locations()[location_].events));
  Check(OTF2_Archive_CloseEvtWriter(archive_, writer_));
  writer_ = nullptr;
}

OTF2_TimeStamp Otf2Archive::Stamp(JobTime at) {
  last_ = std::max(last_, static_cast<OTF2_TimeStamp>(std::max<int64_t>((at - zero_).ns(), 0)));
  greatest_ = std::max(greatest_, last_);
  return last_;
}

void Otf2Archive::Fill(const Attributes& attributes) {
  // The library empties the list after each record.
  for (const auto& attribute : attributes) {
    if (attribute.second) {
      Check(OTF2_AttributeList_AddUint64(attributes_.get(), static_cast<OTF2_AttributeRef>(attribute.first),
                                         *attribute.second));
    }
  }
}

void Otf2Archive::Enter(JobTime at, OTF2_RegionRef region, const Attributes& attributes) {
  if (failed()) return;
  Fill(attributes);
  Check(OTF2_EvtWriter_Enter(writer_, attributes_.get(), Stamp(at), region));
}

void Otf2Archive::Leave(JobTime at, OTF2_RegionRef region) {
  if (!failed()) Check(OTF2_EvtWriter_Leave(writer_, nullptr, Stamp(at), region));
}

void Otf2Archive::CollectiveBegin(JobTime at) {
  if (!failed()) Check(OTF2_EvtWriter_MpiCollectiveBegin(writer_, nullptr, Stamp(at)));
}

void Otf2Archive::CollectiveEnd(JobTime at, const CollectiveRecord& r, const Attributes& attributes) {
  if (failed()) return;
  Fill(attributes);
  Check(OTF2_EvtWriter_MpiCollectiveEnd(writer_, attributes_.get(), Stamp(at), r.op, r.communicator, r.root,
                                        r.sent, r.received));
}

void Otf2Archive::Send(JobTime at, const MessageRecord& r) {
  if (!failed())
    Check(OTF2_EvtWriter_MpiSend(writer_, nullptr, Stamp(at), r.partner, r.communicator, 0, r.bytes));
}

void Otf2Archive::Receive(JobTime at, const MessageRecord& r) {
  if (!failed())
    Check(OTF2_EvtWriter_MpiRecv(writer_, nullptr, Stamp(at), r.partner, r.communicator, 0, r.bytes));
}

void Otf2Archive::WriteDefinitions() {
  // Readers expect a file of definitions beside each location's events, even if it is empty.
  Check(OTF2_Archive_OpenDefFiles(archive_));
  for (OTF2_LocationRef i = 0; i < definitions_.locations().size() && !failed(); ++i) {
    OTF2_DefWriter* own = OTF2_Archive_GetDefWriter(archive_, i);
    if (own == nullptr) return Check(OTF2_ERROR_MEM_ALLOC_FAILED);
    Check(OTF2_Archive_CloseDefWriter(archive_, own));
  }
  Check(OTF2_Archive_CloseDefFiles(archive_));
  OTF2_GlobalDefWriter* global = OTF2_Archive_GetGlobalDefWriter(archive_);
  if (global == nullptr) return Check(OTF2_ERROR_MEM_ALLOC_FAILED);
  Check(definitions_.WriteTo(global, {.zero = zero_, .length = Nanos(static_cast<int64_t>(greatest_))}));
  Check(OTF2_Archive_CloseGlobalDefWriter(archive_, global));
}

absl::Status Otf2Archive::Finish(const std::string& description) {
  EndLocation();
  if (!failed()) Check(OTF2_Archive_CloseEvtFiles(archive_));
  if (!failed()) Check(OTF2_Archive_SetDescription(archive_, description.c_str()));
  if (!failed()) WriteDefinitions();
  OTF2_Archive* archive = archive_;
  archive_ = nullptr;
  const OTF2_ErrorCode closed = OTF2_Archive_Close(archive);
  Check(closed);
  return status_;
}

}  // namespace lockstep::formats
