// A private folder for a test's sockets. The destructor removes it with its content.
#ifndef LOCKSTEP_DAEMON_NODE_TEMP_FOLDER_FAKE_H_
#define LOCKSTEP_DAEMON_NODE_TEMP_FOLDER_FAKE_H_

#include <cstdlib>
#include <filesystem>
#include <string>

namespace lockstep::daemon {

class TempFolder {
 public:
  TempFolder() {
    char name[] = "/tmp/lockstepd-XXXXXX";
    if (mkdtemp(name) != nullptr) path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_TEMP_FOLDER_FAKE_H_
