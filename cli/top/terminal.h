// A terminal that is drawn on as a whole.
//
// Escape sequences that every terminal of the last decades has; no curses, since that reads a database of
// terminals which a relocatable bundle does not find (docs/decisions/0009).
#ifndef LOCKSTEP_CLI_TERMINAL_H_
#define LOCKSTEP_CLI_TERMINAL_H_

#include <termios.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

struct TerminalSize {
  size_t columns = 80;
  size_t lines = 24;
};

// One thread. What it changed is put back by Leave and by the destructor.
class Terminal {
 public:
  Terminal(int input, int output) : input_(input), output_(output) {}
  ~Terminal() { Leave(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // The alternate screen, without cursor and echo, keys as they are pressed. Ctrl-C still sends its signal.
  // False: it is no terminal.
  bool Enter();
  void Leave();

  // 80 by 24 where the terminal does not know.
  TerminalSize size() const;
  // False: it is gone.
  bool Draw(const std::vector<std::string>& lines) const;

 private:
  bool Write(std::string_view bytes) const;

  const int input_;
  const int output_;
  bool entered_ = false;
  termios before_{};
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TERMINAL_H_
