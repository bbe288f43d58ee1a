#include "cli/top/top_program.h"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/common/command.h"
#include "cli/top/top_json.h"

namespace lockstep::cli {
namespace {

// Bytes that follow an escape character within this time belong to its sequence.
constexpr int kSequenceMs = 50;
// Number of ranks that a page key scrolls.
constexpr ptrdiff_t kPage = 10;

bool NoColor() {
  const char* no_color = std::getenv("NO_COLOR");
  return no_color != nullptr && no_color[0] != '\0';
}

// Uses the variables in the same order as setlocale.
TopLetters LettersOfLocale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || value[0] == '\0') continue;
    const std::string locale = absl::AsciiStrToLower(value);
    return absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8") ? TopLetters::kUnicode
                                                                                   : TopLetters::kAscii;
  }
  return TopLetters::kAscii;
}

}  // namespace

TopSignals::TopSignals() {
  ::sigemptyset(&set_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP}) ::sigaddset(&set_, signal);
  ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  fd_ = Fd(::signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK));
}

int TopSignals::Next() const {
  signalfd_siginfo info = {};
  return ::read(fd_.get(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

TopProgram::TopProgram(TopFeed& feed, const TopSignals& signals, const TopOptions& options)
    : feed_(feed),
      signals_(signals),
      options_(options),
      terminal_(STDIN_FILENO, STDOUT_FILENO),
      sort_(options.sort) {}

ExitCode TopProgram::Run() {
  if (options_.form == TopForm::kScreen && !terminal_.Enter())
    return Fail(ExitCode::kFailed, "the terminal cannot be used: try --count 1");
  feed_.Start();
  Redraw();
  while (!quit_ && !end_) Turn();
  feed_.Stop();
  const bool was_screen = options_.form == TopForm::kScreen;
  terminal_.Leave();
  if (!end_) return ExitCode::kDone;
  const ExitCode code = Ended(*end_);
  // Prints the last screen, so that it remains visible.
  if (was_screen && code == ExitCode::kDone) PrintText();
  return code;
}

ExitCode TopProgram::Ended(const absl::Status& status) {
  if (!status.ok()) return Fail(status);
  if (options_.form == TopForm::kText && !model_.ended()) PrintMessage("the job has ended");
  return ExitCode::kDone;
}

void TopProgram::Turn() {
  const bool keys = options_.form == TopForm::kScreen;
  pollfd fds[] = {
      {feed_.wake_fd(), POLLIN, 0}, {signals_.fd(), POLLIN, 0}, {keys ? STDIN_FILENO : -1, POLLIN, 0}};
  const int ready = ::poll(fds, 3, keys_.pending() ? kSequenceMs : -1);
  if (ready == 0) {
    for (const Key& key : keys_.Flush()) OnKey(key);
  }
  if (ready <= 0) return;
  if (fds[0].revents != 0) OnNews();
  if (fds[1].revents != 0) {
    while (const int signal = signals_.Next()) OnSignal(signal);
  }
  if (fds[2].revents == 0) return;
  char bytes[64];
  const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof(bytes));
  // The terminal is gone.
  if (n <= 0) quit_ = true;
  if (n > 0) {
    for (const Key& key : keys_.Feed({bytes, static_cast<size_t>(n)})) OnKey(key);
  }
}

void TopProgram::OnNews() {
  TopFeed::Update update = feed_.Take();
  for (const v1::WatchEvent& event : update.events) {
    if (!quit_) OnEvent(event);
  }
  if (update.end && !quit_) end_ = *update.end;
  if (!end_) Redraw();
}

void TopProgram::OnEvent(const v1::WatchEvent& event) {
  model_.Add(event);
  if (options_.form == TopForm::kScreen) return;
  if (options_.form == TopForm::kJson) {
    std::fputs(TopToJson(model_, event).c_str(), stdout);
  } else if (PrintedInTop(event)) {
    PrintText();
  }
  // The reader of stdout is gone.
  if (std::fflush(stdout) != 0) quit_ = true;
  shown_ += event.has_sample();
  if (options_.count > 0 && shown_ >= options_.count) quit_ = true;
}

void TopProgram::OnSignal(int signal) {
  switch (signal) {
    case SIGWINCH:
      return Redraw();
    case SIGTSTP:
      terminal_.Leave();
      // Stops until SIGCONT. SIGTSTP itself is blocked.
      std::raise(SIGSTOP);
      if (options_.form == TopForm::kScreen) terminal_.Enter();
      return Redraw();
    default:
      quit_ = true;
  }
}

void TopProgram::OnKey(const Key& key) {
  switch (key.kind) {
    case Key::Kind::kUp:
      Scroll(-1);
      break;
    case Key::Kind::kDown:
      Scroll(1);
      break;
    case Key::Kind::kPageUp:
      Scroll(-kPage);
      break;
    case Key::Kind::kPageDown:
      Scroll(kPage);
      break;
    case Key::Kind::kHome:
      scroll_ = 0;
      break;
    case Key::Kind::kEnd:
      Scroll(model_.last() == nullptr ? 0 : model_.last()->ranks_size());
      break;
    case Key::Kind::kEscape:
      page_ = TopPage::kLive;
      break;
    case Key::Kind::kCharacter:
      if (key.character == 'q' || key.character == 'Q') quit_ = true;
      if (key.character == 's') sort_ = static_cast<TopSort>((static_cast<size_t>(sort_) + 1) % kTopSorts);
      if (key.character == 'p' || key.character == ' ') TogglePause();
      if (key.character == '?' || key.character == 'h')
        page_ = page_ == TopPage::kHelp ? TopPage::kLive : TopPage::kHelp;
      break;
  }
  Redraw();
}

void TopProgram::TogglePause() {
  held_ = !held_;
  // While the screen is held, no samples are needed.
  if (held_) feed_.Stop();
  if (!held_) feed_.Start();
}

void TopProgram::Scroll(ptrdiff_t ranks) {
  const ptrdiff_t last = model_.last() == nullptr ? 0 : std::max(model_.last()->ranks_size() - 1, 0);
  scroll_ = static_cast<size_t>(std::clamp<ptrdiff_t>(static_cast<ptrdiff_t>(scroll_) + ranks, 0, last));
}

TopScreenOptions TopProgram::ScreenOptions() const {
  TopScreenOptions screen;
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const TerminalSize size = terminal_.size();
  if (terminal) screen.width = size.columns;
  screen.height = size.lines;
  screen.color = terminal && !NoColor() ? TopColor::kColored : TopColor::kPlain;
  screen.letters = LettersOfLocale();
  screen.sort = sort_;
  screen.rows = options_.rows;
  return screen;
}

void TopProgram::Redraw() {
  if (options_.form != TopForm::kScreen || quit_) return;
  TopScreenOptions screen = ScreenOptions();
  screen.page = page_ == TopPage::kLive && held_ ? TopPage::kHeld : page_;
  screen.scroll = scroll_;
  if (!terminal_.Draw(RenderTop(model_, screen))) quit_ = true;
}

void TopProgram::PrintText() {
  if (shown_ > 0) std::fputs("\n", stdout);
  std::fputs(absl::StrCat(absl::StrJoin(RenderTop(model_, ScreenOptions()), "\n"), "\n").c_str(), stdout);
}

}  // namespace lockstep::cli
