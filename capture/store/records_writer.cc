#include "capture/store/records_writer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files/file_sink.h"
#include "base/files/read_files.h"

namespace lockstep::capture {
namespace {

constexpr char kPartial[] = ".partial";

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

// Makes the names of new files in the folder survive the end of the machine.
absl::Status SyncFolder(const std::string& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok() || (::fsync(fd.get()) != 0 && errno != EINVAL))
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot sync ", folder));
  return absl::OkStatus();
}

// Opens a file of an earlier process for appending at `bytes`, and cuts off the rest.
absl::StatusOr<Fd> OpenAt(const std::string& path, uint64_t bytes) {
  Fd fd(::open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  struct stat status = {};
  if (!fd.ok() || ::fstat(fd.get(), &status) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  if (static_cast<uint64_t>(status.st_size) < bytes) {
    return absl::DataLossError(
        absl::StrCat(path, " has ", status.st_size, " bytes, and ", bytes, " were written"));
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot cut ", path));
  return fd;
}

// Counts the rows of a file, which must consist of whole blocks.
absl::StatusOr<RowCounts> RowsOf(const Fd& fd, uint64_t bytes, const std::string& path) {
  if (bytes == 0) return RowCounts{};
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  const BlockWalk walk = WalkBlocks({static_cast<const char*>(data), bytes});
  ::munmap(data, bytes);
  if (!walk.damage.empty())
    return absl::DataLossError(absl::StrCat(path, " ", walk.damage, " at byte ", walk.end));
  return CountRows(walk.blocks);
}

absl::Status WriteManifest(const std::string& path, const Manifest& manifest) {
  auto sink = OpenAtomicFile(path);
  if (!sink.ok()) return sink.status();
  if (absl::Status s = (*sink)->Append(ManifestToJson(manifest)); !s.ok()) return s;
  return (*sink)->Finish();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordsWriter>> RecordsWriter::Create(const std::string& folder,
                                                                     const Manifest& open) {
  const std::string records = folder + "/records";
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", folder));
  }
  if (::mkdir(records.c_str(), 0700) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", records));
  const std::string manifest = absl::StrCat(records, "/", kOpenManifestName);
  if (absl::Status s = WriteManifest(manifest, open); !s.ok()) return s;
  return std::unique_ptr<RecordsWriter>(new RecordsWriter(records));
}

absl::StatusOr<std::unique_ptr<RecordsWriter>> RecordsWriter::Continue(
    const std::string& folder, const std::vector<KeptRecords>& records,
    const std::vector<KeptTrace>& traces) {
  std::unique_ptr<RecordsWriter> writer(new RecordsWriter(folder + "/records"));
  for (const KeptRecords& kept : records) {
    if (absl::Status s = writer->Keep(kept); !s.ok()) return s;
  }
  for (const KeptTrace& kept : traces) {
    if (absl::Status s = writer->Keep(kept); !s.ok()) return s;
  }
  writer->DeleteOthers();
  return writer;
}

absl::Status RecordsWriter::Keep(const KeptRecords& kept) {
  if (!ParseRecordsFileName(kept.end.name))
    return absl::DataLossError(absl::StrCat(kept.end.name, " is not the name of a file of records"));
  const std::string path = absl::StrCat(records_, "/", kept.end.name);
  absl::StatusOr<Fd> fd = OpenAt(path, kept.end.bytes);
  if (!fd.ok()) return fd.status();
  const absl::StatusOr<RowCounts> rows = RowsOf(*fd, kept.end.bytes, path);
  if (!rows.ok()) return rows.status();
  auto file = std::make_unique<File>();
  {
    MutexLock file_lock(&file->mutex);
    file->fd = *std::move(fd);
    file->entry = {kept.end.name, kept.end.bytes, *rows};
  }
  MutexLock lock(&mutex_);
  files_[kept.key] = std::move(file);
  return absl::OkStatus();
}

absl::Status RecordsWriter::Keep(const KeptTrace& kept) {
  TraceWriting trace;
  trace.entry = {TraceFileName(kept.owner), kept.bytes};
  trace.whole = kept.whole;
  const std::string path = absl::StrCat(records_, "/", trace.entry.name);
  // The earlier process may have ended before it renamed a file whose last piece it had written.
  if (kept.whole && ::access(path.c_str(), F_OK) != 0) ::rename((path + kPartial).c_str(), path.c_str());
  absl::StatusOr<Fd> fd = OpenAt(kept.whole ? path : path + kPartial, kept.bytes);
  if (!fd.ok()) return fd.status();
  if (!kept.whole) trace.fd = *std::move(fd);
  MutexLock lock(&traces_mutex_);
  traces_[KeyOf(kept.owner)] = std::move(trace);
  return absl::OkStatus();
}

void RecordsWriter::DeleteOthers() {
  std::set<std::string> kept;
  {
    MutexLock lock(&mutex_);
    for (const auto& [key, file] : files_) {
      MutexLock file_lock(&file->mutex);
      kept.insert(file->entry.name);
    }
  }
  std::error_code error;
  for (const std::filesystem::directory_entry& entry : FolderEntries(records_)) {
    const std::string name = entry.path().filename().string();
    if (ParseRecordsFileName(name) && !kept.contains(name)) std::filesystem::remove(entry.path(), error);
  }
}

absl::StatusOr<RecordsWriter::File*> RecordsWriter::Open(SegmentKey key, RankId rank) {
  MutexLock lock(&mutex_);
  std::unique_ptr<File>& file = files_[key];
  if (file == nullptr) {
    // The numbers distinguish two processes that claim one rank, and two segments of one process.
    auto made = std::make_unique<File>();
    MutexLock made_lock(&made->mutex);
    made->entry.name = RecordsFileName({rank, key.process, static_cast<uint32_t>(files_.size())});
    const std::string path = absl::StrCat(records_, "/", made->entry.name);
    made->fd.reset(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!made->fd.ok()) {
      const int error = errno;
      files_.erase(key);
      return absl::ErrnoToStatus(error, absl::StrCat("cannot create ", path));
    }
    file = std::move(made);
    folder_unsynced_ = true;
  }
  return file.get();
}

absl::StatusOr<FileEnd> RecordsWriter::Append(SegmentKey key, RankId rank, std::string_view blocks) {
  const BlockWalk walk = WalkBlocks(blocks);
  if (!walk.damage.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("a batch ", walk.damage, " at byte ", walk.end));
  }
  auto opened = Open(key, rank);
  if (!opened.ok()) return opened.status();
  File& file = **opened;
  MutexLock lock(&file.mutex);
  const std::string path = absl::StrCat(records_, "/", file.entry.name);
  if (file.broken) return absl::DataLossError(absl::StrCat("an earlier write to ", path, " failed"));
  if (absl::Status s = WriteAll(file.fd.get(), blocks, path); !s.ok()) {
    // Cuts off the torn block. If that fails, a reader stops at it.
    file.broken = ::ftruncate(file.fd.get(), static_cast<off_t>(file.entry.bytes)) != 0;
    return s;
  }
  file.entry.bytes += blocks.size();
  file.unsynced = true;
  const RowCounts rows = CountRows(walk.blocks);
  for (size_t kind = 0; kind < rows.size(); ++kind) file.entry.rows[kind] += rows[kind];
  return FileEnd{file.entry.name, file.entry.bytes};
}

absl::Status RecordsWriter::AppendTrace(const TraceFileOwner& owner, uint64_t offset,
                                        std::string_view bytes) {
  MutexLock lock(&traces_mutex_);
  TraceWriting& trace = traces_[KeyOf(owner)];
  if (trace.entry.name.empty()) {
    trace.entry.name = TraceFileName(owner);
    const std::string path = absl::StrCat(records_, "/", trace.entry.name, kPartial);
    trace.fd.reset(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!trace.fd.ok()) {
      trace.broken = true;
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
    }
    folder_unsynced_ = true;
  }
  if (trace.broken || trace.whole)
    return absl::DataLossError(absl::StrCat(trace.entry.name, " is already complete"));
  if (offset != trace.entry.bytes) {
    trace.broken = true;
    return absl::InvalidArgumentError(
        absl::StrCat("got byte ", offset, " of ", trace.entry.name, ", expected byte ", trace.entry.bytes));
  }
  absl::Status written = WriteAll(trace.fd.get(), bytes, absl::StrCat(records_, "/", trace.entry.name));
  trace.broken = !written.ok();
  trace.entry.bytes += bytes.size();
  trace.unsynced = true;
  return written;
}

absl::Status RecordsWriter::FinishTrace(const TraceFileOwner& owner) {
  MutexLock lock(&traces_mutex_);
  TraceWriting& trace = traces_[KeyOf(owner)];
  if (trace.broken || trace.whole || !trace.fd.ok())
    return absl::DataLossError("there is no trace file to finish");
  const std::string path = absl::StrCat(records_, "/", trace.entry.name);
  if (::fdatasync(trace.fd.get()) != 0 || ::rename((path + kPartial).c_str(), path.c_str()) != 0) {
    trace.broken = true;
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot complete ", path));
  }
  trace.fd.reset();
  trace.whole = true;
  trace.unsynced = false;
  folder_unsynced_ = true;
  return absl::OkStatus();
}

void RecordsWriter::DropTrace(const TraceFileOwner& owner) {
  MutexLock lock(&traces_mutex_);
  if (const auto it = traces_.find(KeyOf(owner)); it != traces_.end()) Drop(it->second);
}

void RecordsWriter::Drop(TraceWriting& trace) {
  if (trace.whole) return;
  trace.broken = true;
  trace.fd.reset();
  ::unlink(absl::StrCat(records_, "/", trace.entry.name, kPartial).c_str());
}

ManifestTrace RecordsWriter::Trace(uint32_t process, TraceFileKind kind) const {
  MutexLock lock(&traces_mutex_);
  const auto it = traces_.find({process, kind});
  return it == traces_.end() || !it->second.whole ? ManifestTrace() : it->second.entry;
}

std::vector<ManifestFile> RecordsWriter::Files(uint32_t process) const {
  MutexLock lock(&mutex_);
  std::vector<ManifestFile> out;
  for (auto it = files_.lower_bound({process, 0}); it != files_.end() && it->first.process == process; ++it) {
    MutexLock file_lock(&it->second->mutex);
    out.push_back(it->second->entry);
  }
  return out;
}

uint64_t RecordsWriter::bytes() const {
  MutexLock lock(&mutex_);
  uint64_t total = 0;
  for (const auto& [key, file] : files_) {
    MutexLock file_lock(&file->mutex);
    total += file->entry.bytes;
  }
  return total;
}

std::vector<RecordsWriter::Unsynced> RecordsWriter::TakeUnsynced() {
  std::vector<Unsynced> out;
  const auto take = [&](bool& unsynced, const Fd& fd, const std::string& name) {
    if (std::exchange(unsynced, false) && fd.ok())
      out.push_back({Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)), name});
  };
  {
    MutexLock lock(&mutex_);
    for (const auto& [key, file] : files_) {
      MutexLock file_lock(&file->mutex);
      take(file->unsynced, file->fd, file->entry.name);
    }
  }
  MutexLock lock(&traces_mutex_);
  for (auto& [key, trace] : traces_) take(trace.unsynced, trace.fd, trace.entry.name);
  return out;
}

absl::Status RecordsWriter::Sync() {
  absl::Status synced;
  for (const Unsynced& file : TakeUnsynced()) {
    if (!file.fd.ok() || ::fdatasync(file.fd.get()) != 0)
      synced.Update(absl::ErrnoToStatus(errno, absl::StrCat("cannot sync ", records_, "/", file.name)));
  }
  if (folder_unsynced_.exchange(false)) synced.Update(SyncFolder(records_));
  return synced;
}

absl::Status RecordsWriter::Close(const Manifest& manifest) {
  {
    MutexLock lock(&mutex_);
    for (const auto& [key, file] : files_) {
      MutexLock file_lock(&file->mutex);
      if (::fdatasync(file->fd.get()) != 0) {
        return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", records_, "/", file->entry.name));
      }
      file->fd.reset();
      file->broken = true;
    }
  }
  {
    MutexLock lock(&traces_mutex_);
    for (auto& [key, trace] : traces_) Drop(trace);
  }
  if (absl::Status s = WriteManifest(absl::StrCat(records_, "/", kManifestName), manifest); !s.ok()) return s;
  ::unlink(absl::StrCat(records_, "/", kOpenManifestName).c_str());
  return SyncFolder(records_);
}

}  // namespace lockstep::capture
