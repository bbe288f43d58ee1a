// Where a daemon answers PyTorch's on-demand tracing besides dynolog's well-known name: a socket in a folder
// of its own, beside its other sockets. `lockstep run` points jobs there by environment, so that they meet
// their own user's daemon, whoever has the name.
#ifndef LOCKSTEP_COMMON_BASE_KINETO_FOLDER_H_
#define LOCKSTEP_COMMON_BASE_KINETO_FOLDER_H_

#include <string>

namespace lockstep {

// libkineto's variable for such a folder; the daemon's own is honoured too.
inline constexpr char kKinetoFolderVariable[] = "KINETO_IPC_SOCKET_DIR";
// The daemon's socket in it.
inline constexpr char kKinetoSocketName[] = "dynolog";
// A client binds <folder>/dynoconfigclient<36 characters>, and a socket's path has at most 106.
inline constexpr size_t kLongestKinetoFolder = 53;

// Of the daemon whose client socket this is. Both sides must spell it alike: libkineto compares paths, and
// ends the process where they differ.
inline std::string KinetoFolderOf(const std::string& client_socket) {
  const size_t slash = client_socket.rfind('/');
  return (slash == std::string::npos ? std::string(".") : client_socket.substr(0, slash)) + "/kineto";
}

}  // namespace lockstep

#endif  // LOCKSTEP_COMMON_BASE_KINETO_FOLDER_H_
