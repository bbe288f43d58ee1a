// Implements --memory of the commands that read a capture.
#ifndef LOCKSTEP_CLI_COMMANDS_MEMORY_LIMIT_H_
#define LOCKSTEP_CLI_COMMANDS_MEMORY_LIMIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "CLI/CLI.hpp"

namespace lockstep::cli {

// Adds the flag. `bytes` outlives the parser; it is 0 if the flag is not given.
void AddMemoryFlag(CLI::App& app, uint64_t& bytes);

// Returns `flag_bytes`, or half of the machine's memory if they are 0.
uint64_t MemoryLimitOf(uint64_t flag_bytes);

// Returns the memory of the machine, or the lowest limit of the process's control groups if that is lower.
// nullopt: the system does not say. `root` is "" outside of tests; it precedes /proc and /sys.
std::optional<uint64_t> MachineMemory(const std::string& root);

// From here on, this process ends with exit code 1 and an error that names --memory instead of taking more
// than `bytes` of memory of its own. The program itself, mapped files and unused stacks do not count. Call it
// before reading the input, in a command that starts no other program, because programs inherit the limit.
void LimitMemory(uint64_t bytes);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMANDS_MEMORY_LIMIT_H_
