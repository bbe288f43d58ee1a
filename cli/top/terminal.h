// Terminal draws whole screens on a terminal.
//
// It uses escape sequences that all common terminals support. It does not use curses, because curses reads a
// terminal database that a relocatable bundle does not find (docs/decisions/0009).
#ifndef LOCKSTEP_CLI_TOP_TERMINAL_H_
#define LOCKSTEP_CLI_TOP_TERMINAL_H_

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

// One thread. Leave and the destructor restore the terminal's state.
class Terminal {
 public:
  Terminal(int input, int output) : input_(input), output_(output) {}
  ~Terminal() { Leave(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Switches to the alternate screen, without cursor and echo, and delivers keys at once. Ctrl-C still sends
  // its signal. Returns false if it is not a terminal.
  bool Enter();
  void Leave();

  // Returns 80 by 24 if the terminal does not know its size.
  TerminalSize size() const;
  // Returns false if the terminal is gone.
  bool Draw(const std::vector<std::string>& lines) const;

 private:
  bool Write(std::string_view bytes) const;

  const int input_;
  const int output_;
  bool entered_ = false;
  termios before_{};
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TOP_TERMINAL_H_
