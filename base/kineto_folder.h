// The daemon serves PyTorch's on-demand tracing at a socket in a folder of its own, besides dynolog's
// well-known name. `lockstep run` points jobs there through the environment. They then reach their own user's
// daemon, even if another process has the well-known name.
#ifndef LOCKSTEP_BASE_KINETO_FOLDER_H_
#define LOCKSTEP_BASE_KINETO_FOLDER_H_

#include <string>

namespace lockstep {

// libkineto reads the folder from this variable; the daemon reads it too.
inline constexpr char kKinetoFolderVariable[] = "KINETO_IPC_SOCKET_DIR";
// The name of the daemon's socket in that folder.
inline constexpr char kKinetoSocketName[] = "dynolog";
// A client binds <folder>/dynoconfigclient<36 characters>, and the path of a socket has at most 106
// characters.
inline constexpr size_t kLongestKinetoFolder = 53;

// The folder of the daemon with this client socket. Both sides must spell the path identically: libkineto
// compares the paths, and ends its process if they differ.
inline std::string KinetoFolderOf(const std::string& client_socket) {
  const size_t slash = client_socket.rfind('/');
  return (slash == std::string::npos ? std::string(".") : client_socket.substr(0, slash)) + "/kineto";
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_KINETO_FOLDER_H_
