// TopProgram runs `lockstep top`: it shows samples as screens or lines, and handles keys and signals.
#ifndef LOCKSTEP_CLI_TOP_TOP_PROGRAM_H_
#define LOCKSTEP_CLI_TOP_TOP_PROGRAM_H_

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "base/fd.h"
#include "cli/common/exit_code.h"
#include "cli/top/keys.h"
#include "cli/top/terminal.h"
#include "cli/top/top_feed.h"
#include "cli/top/top_model.h"
#include "cli/top/top_screen.h"

namespace lockstep::cli {

enum class TopForm { kScreen, kText, kJson };

struct TopOptions {
  TopForm form = TopForm::kText;
  uint64_t count = 0;  // number of samples to show; 0: until the job ends
  size_t rows = 10;    // for kText
  TopSort sort = TopSort::kAboveTypical;
};

// Delivers SIGINT, SIGTERM, SIGHUP, SIGWINCH and SIGTSTP through a descriptor. Create it before the first
// thread, which inherits the blocked signals.
class TopSignals {
 public:
  TopSignals();
  int fd() const { return fd_.get(); }
  // Returns 0 if there is no signal.
  int Next() const;

 private:
  sigset_t set_;
  Fd fd_;
};

// One thread.
class TopProgram {
 public:
  TopProgram(TopFeed& feed, const TopSignals& signals, const TopOptions& options);
  ExitCode Run();

 private:
  // Waits once for samples, keys or signals, and handles them.
  void Turn();
  void OnNews();
  void OnEvent(const v1::WatchEvent& event);
  void OnSignal(int signal);
  void OnKey(const Key& key);
  void TogglePause();
  void Scroll(ptrdiff_t ranks);
  void Redraw();
  void PrintText();
  TopScreenOptions ScreenOptions() const;
  ExitCode Ended(const absl::Status& status);

  TopFeed& feed_;
  const TopSignals& signals_;
  const TopOptions options_;
  Terminal terminal_;
  KeyReader keys_;
  TopModel model_;
  TopSort sort_;
  TopPage page_ = TopPage::kLive;
  bool held_ = false;
  size_t scroll_ = 0;
  uint64_t shown_ = 0;
  std::optional<absl::Status> end_;
  bool quit_ = false;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TOP_TOP_PROGRAM_H_
