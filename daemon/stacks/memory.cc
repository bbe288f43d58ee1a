#include "daemon/stacks/memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace lockstep::daemon {

bool MemoryFile::Read(uint64_t address, void* to, size_t size) const {
  auto* out = static_cast<char*>(to);
  while (size > 0) {
    const Page* page = Find(address / kPageBytes);
    if (page == nullptr) return false;
    const uint64_t offset = address % kPageBytes;
    const size_t part = std::min<size_t>(size, kPageBytes - offset);
    std::memcpy(out, page->data() + offset, part);
    address += part;
    out += part;
    size -= part;
  }
  return true;
}

const MemoryFile::Page* MemoryFile::Find(uint64_t number) const {
  const auto known = pages_.find(number);
  if (known != pages_.end()) return known->second.get();
  if (pages_.size() >= kMostPages) return nullptr;
  auto page = std::make_unique<Page>();
  const auto at = static_cast<off64_t>(number * kPageBytes);
  if (::pread64(file_.get(), page->data(), kPageBytes, at) != static_cast<ssize_t>(kPageBytes))
    page = nullptr;
  return (pages_[number] = std::move(page)).get();
}

}  // namespace lockstep::daemon
