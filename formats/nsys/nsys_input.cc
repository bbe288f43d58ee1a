#include "formats/nsys/nsys_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/fd.h"
#include "base/files/read_files.h"
#include "base/mutex.h"
#include "base/parallel.h"
#include "formats/common/foreign_files.h"
#include "formats/common/read_options.h"
#include "formats/nsys/nsys_capture.h"
#include "formats/nsys/nsys_reader.h"
#include "formats/nsys/sqlite_database.h"

namespace lockstep::formats {
namespace {

constexpr size_t kBlock = size_t{1} << 20;

bool LiesUncompressed(const std::string& path) {
  const InputFile file = OpenInputFile(path);
  char first[kSqliteMagicBytes] = {};
  return file.fd.ok() &&
         ::pread(file.fd.get(), first, sizeof first, 0) == static_cast<ssize_t>(sizeof first) &&
         IsSqlite({first, sizeof first});
}

// A file in the temporary folder that is opened by name. Remove() deletes the name before the file is read.
class TemporaryFile {
 public:
  TemporaryFile() = default;
  ~TemporaryFile() { Remove(); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  absl::Status Fill(ByteSource& source) {
    std::error_code ignored;
    path_ = (std::filesystem::temp_directory_path(ignored) / "lockstep-nsys-XXXXXX").string();
    Fd fd(::mkostemp(path_.data(), O_CLOEXEC));
    if (!fd.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", std::exchange(path_, "")));
    std::vector<char> block(kBlock);
    while (const size_t read = source.Read(block)) {
      for (size_t written = 0; written < read;) {
        const ssize_t n = ::write(fd.get(), block.data() + written, read - written);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
          return absl::ErrnoToStatus(
              errno, absl::StrCat("cannot inflate into ", path_, "; set TMPDIR to a folder with free space"));
        written += static_cast<size_t>(n);
      }
    }
    return absl::OkStatus();
  }
  void Remove() {
    if (!path_.empty()) ::unlink(path_.c_str());
    path_.clear();
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// nvprof, the predecessor of Nsight Systems, keeps strings in a table of another name.
bool IsNvprof(const SqliteDatabase& database) {
  const SqliteDatabase::Table* strings = database.Find("StringTable");
  return strings != nullptr && strings->Has("_id_") && database.Find("StringIds") == nullptr;
}

// The result of reading one file: its rows, or the reason why it has none.
struct Outcome {
  std::optional<NsysFile> rows;
  std::string why;  // as the end of a sentence that begins with the file's name
};

Outcome ReadOne(NsysInput& input, HostDetail host, const RowProgress& progress) {
  TemporaryFile inflated;
  const bool plain = LiesUncompressed(input.from.path);
  std::string broken_off;
  if (!plain) {
    if (absl::Status s = inflated.Fill(*input.source); !s.ok())
      return {.why = absl::StrCat(": ", s.message())};
    broken_off = input.source->damage();
  }
  input.source.reset();
  auto database = SqliteDatabase::OpenFile(plain ? input.from.path : inflated.path());
  inflated.Remove();
  if (!database.ok()) {
    const std::string cut = broken_off.empty() ? "" : absl::StrCat(" (", broken_off, ")");
    return {.why = absl::StrCat(" ", database.status().message(), cut, "; copy it again")};
  }
  if (IsNvprof(*database)) return {.why = WhyNvprofDatabase(input.from.path)};
  NsysFile file = ReadNsys(*database, progress, host);
  if (!broken_off.empty()) file.damage = absl::StrCat("is truncated: ", broken_off);
  return {.rows = std::move(file)};
}

// Converts rows read from each file into bytes of all files.
class Progress {
 public:
  Progress(const ReadOptions& options, const std::vector<NsysInput>& inputs)
      : options_(options), done_(inputs.size()) {
    for (const NsysInput& input : inputs) total_ += input.bytes;
  }
  RowProgress Of(size_t place, uint64_t bytes) {
    if (!options_.progress) return nullptr;
    return [this, place, bytes](uint64_t rows, uint64_t of) {
      MutexLock lock(&mutex_);
      const double part = of == 0 ? 1 : std::min(1.0, static_cast<double>(rows) / static_cast<double>(of));
      done_[place] = static_cast<uint64_t>(static_cast<double>(bytes) * part);
      uint64_t sum = 0;
      for (const uint64_t d : done_) sum += d;
      options_.progress(sum, total_);
    };
  }

 private:
  const ReadOptions& options_;
  Mutex mutex_;
  std::vector<uint64_t> done_ ABSL_GUARDED_BY(mutex_);
  uint64_t total_ = 0;  // set before the constructor returns
};

}  // namespace

absl::StatusOr<capture::Capture> ReadNsysInput(std::vector<NsysInput> inputs, const ReadOptions& options) {
  Progress progress(options, inputs);
  std::vector<Outcome> outcomes(inputs.size());
  ParallelFor(static_cast<unsigned>(std::max(1, options.threads)), inputs.size(), [&](unsigned, size_t i) {
    outcomes[i] = ReadOne(inputs[i], options.host, progress.Of(i, inputs[i].bytes));
    if (options.overflow != nullptr && outcomes[i].rows) {
      for (auto& [pid, process] : outcomes[i].rows->processes) MoveRows(process, *options.overflow);
    }
  });
  std::vector<ReadNsysFile> files;
  std::vector<std::string> notes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TraceFile& from = inputs[i].from;
    if (outcomes[i].rows) {
      files.push_back({from, std::move(*outcomes[i].rows)});
      continue;
    }
    const std::string sentence = absl::StrCat(from.path, outcomes[i].why);
    if (from.named || inputs.size() == 1) return absl::InvalidArgumentError(sentence);
    notes.push_back(absl::StrCat(sentence, " (left out)"));
  }
  if (files.empty()) return absl::InvalidArgumentError(notes.front());
  auto capture = JoinNsysFiles(std::move(files), options.overflow);
  if (capture.ok()) capture->notes.insert(capture->notes.begin(), notes.begin(), notes.end());
  return capture;
}

}  // namespace lockstep::formats
