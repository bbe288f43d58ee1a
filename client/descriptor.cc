#include "client/descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep::client {
namespace {

constexpr int kLeast = 512;
// For processes with a limit below kLeast.
constexpr int kLeastIfLimited = 64;

bool Identify(int fd, uint64_t* device, uint64_t* inode) {
  struct stat info;
  if (::syscall(SYS_fstat, fd, &info) != 0) return false;
  *device = info.st_dev;
  *inode = info.st_ino;
  return true;
}

}  // namespace

bool Descriptor::Take(int low) {
  Close();
  int fd = ::fcntl(low, F_DUPFD_CLOEXEC, kLeast);
  if (fd < 0) fd = ::fcntl(low, F_DUPFD_CLOEXEC, kLeastIfLimited);
  ::close(low);
  if (fd < 0) return false;
  if (!Identify(fd, &device_, &inode_)) {
    ::close(fd);
    return false;
  }
  fd_ = fd;
  return true;
}

int Descriptor::Use() {
  if (fd_ < 0) return -1;
  uint64_t device = 0;
  uint64_t inode = 0;
  if (!Identify(fd_, &device, &inode) || device != device_ || inode != inode_) fd_ = -1;
  return fd_;
}

void Descriptor::Close() {
  const int fd = Use();
  if (fd >= 0) ::close(fd);
  fd_ = -1;
}

}  // namespace lockstep::client
