#include "cli/top/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

namespace lockstep::cli {
namespace {

// Sets the alternate screen, the cursor, and wrapping at the right edge.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
constexpr std::string_view kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";

}  // namespace

bool Terminal::Enter() {
  if (entered_) return true;
  if (::tcgetattr(input_, &before_) != 0) return false;
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  if (::tcsetattr(input_, TCSANOW, &raw) != 0) return false;
  entered_ = true;
  return Write(kEnter);
}

void Terminal::Leave() {
  if (!entered_) return;
  entered_ = false;
  Write(kLeave);
  // Flushes unread input, which must not reach the shell.
  ::tcsetattr(input_, TCSAFLUSH, &before_);
}

TerminalSize Terminal::size() const {
  winsize size = {};
  if (::ioctl(output_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

bool Terminal::Draw(const std::vector<std::string>& lines) const {
  // One write, so that no partial screen is shown.
  std::string out = "\x1b[H";
  for (size_t i = 0; i < lines.size(); ++i) {
    out += lines[i];
    out += "\x1b[K";
    if (i + 1 < lines.size()) out += "\r\n";
  }
  out += "\x1b[J";
  return Write(out);
}

bool Terminal::Write(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::write(output_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace lockstep::cli
