#include "daemon/stacks/loaded_image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"

namespace lockstep::daemon {
namespace {

constexpr uint16_t kMostSegments = 64;
constexpr uint64_t kMostDynamicEntries = 512;
constexpr uint32_t kMostSymbolsOfOneHash = 4096;
constexpr uint32_t kMostSymbols = 1u << 20;

// The tables of an image that a symbol is looked up in: addresses in the process.
struct Tables {
  uint64_t symbols = 0, names = 0, gnu_hash = 0, hash = 0;
};

class Image {
 public:
  Image(const Memory& memory, uint64_t begin) : memory_(memory), begin_(begin) {}

  std::optional<uint64_t> Find(std::string_view name) {
    const std::optional<Elf64_Ehdr> head = memory_.Get<Elf64_Ehdr>(begin_);
    if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64)
      return std::nullopt;
    if (head->e_phentsize != sizeof(Elf64_Phdr) || head->e_phnum > kMostSegments) return std::nullopt;
    uint64_t dynamic = 0;
    for (uint16_t i = 0; i < head->e_phnum; ++i) {
      const auto segment = memory_.Get<Elf64_Phdr>(begin_ + head->e_phoff + i * sizeof(Elf64_Phdr));
      if (!segment) return std::nullopt;
      if (segment->p_type == PT_LOAD && segment->p_offset == 0) shift_ = begin_ - segment->p_vaddr;
      if (segment->p_type == PT_DYNAMIC) dynamic = segment->p_vaddr;
    }
    if (dynamic == 0) return std::nullopt;
    ReadTables(shift_ + dynamic);
    if (tables_.symbols == 0 || tables_.names == 0) return std::nullopt;
    return tables_.gnu_hash != 0 ? FindByGnuHash(name) : FindAmongAll(name);
  }

 private:
  void ReadTables(uint64_t dynamic) {
    for (uint64_t i = 0; i < kMostDynamicEntries; ++i) {
      const auto entry = memory_.Get<Elf64_Dyn>(dynamic + i * sizeof(Elf64_Dyn));
      if (!entry || entry->d_tag == DT_NULL) return;
      // The loader has replaced the addresses of most images by those in the process.
      const uint64_t value = entry->d_un.d_ptr;
      const uint64_t address = value < begin_ ? shift_ + value : value;
      if (entry->d_tag == DT_SYMTAB) tables_.symbols = address;
      if (entry->d_tag == DT_STRTAB) tables_.names = address;
      if (entry->d_tag == DT_GNU_HASH) tables_.gnu_hash = address;
      if (entry->d_tag == DT_HASH) tables_.hash = address;
    }
  }

  // The table begins with the number of buckets, the first hashed symbol, and the words and the shift of a
  // filter. The filter follows, then the first symbol of each bucket, then the hash of each symbol. The
  // lowest bit of a hash ends its bucket.
  std::optional<uint64_t> FindByGnuHash(std::string_view name) const {
    struct Head {
      uint32_t buckets, first_symbol, filter_words, filter_shift;
    };
    const std::optional<Head> head = memory_.Get<Head>(tables_.gnu_hash);
    if (!head || head->buckets == 0) return std::nullopt;
    uint32_t hash = 5381;
    for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
    const uint64_t buckets = tables_.gnu_hash + sizeof(Head) + uint64_t{head->filter_words} * 8;
    const uint64_t hashes = buckets + uint64_t{head->buckets} * 4;
    const uint32_t first = memory_.Get<uint32_t>(buckets + uint64_t{hash % head->buckets} * 4).value_or(0);
    if (first < head->first_symbol) return std::nullopt;
    for (uint32_t symbol = first; symbol - first < kMostSymbolsOfOneHash; ++symbol) {
      const auto other = memory_.Get<uint32_t>(hashes + uint64_t{symbol - head->first_symbol} * 4);
      if (!other) return std::nullopt;
      if ((*other | 1) == (hash | 1)) {
        if (const std::optional<uint64_t> address = AddressIfNamed(symbol, name)) return address;
      }
      if ((*other & 1) != 0) return std::nullopt;
    }
    return std::nullopt;
  }

  // The older hash table states the number of symbols.
  std::optional<uint64_t> FindAmongAll(std::string_view name) const {
    if (tables_.hash == 0) return std::nullopt;
    const uint32_t count = memory_.Get<uint32_t>(tables_.hash + 4).value_or(0);
    for (uint32_t symbol = 0; symbol < std::min(count, kMostSymbols); ++symbol) {
      if (const std::optional<uint64_t> address = AddressIfNamed(symbol, name)) return address;
    }
    return std::nullopt;
  }

  std::optional<uint64_t> AddressIfNamed(uint32_t number, std::string_view name) const {
    const auto symbol = memory_.Get<Elf64_Sym>(tables_.symbols + uint64_t{number} * sizeof(Elf64_Sym));
    if (!symbol || symbol->st_shndx == SHN_UNDEF) return std::nullopt;
    std::string found(name.size() + 1, '\0');
    if (!memory_.Read(tables_.names + symbol->st_name, found.data(), found.size())) return std::nullopt;
    if (found.back() != '\0' || std::string_view(found).substr(0, name.size()) != name) return std::nullopt;
    return shift_ + symbol->st_value;
  }

  const Memory& memory_;
  const uint64_t begin_;
  uint64_t shift_ = 0;  // from addresses of the file to those of the process
  Tables tables_;
};

}  // namespace

std::vector<LoadedImage> LoadedImages(std::string_view maps) {
  std::vector<LoadedImage> images;
  while (!maps.empty()) {
    const std::string_view line = maps.substr(0, maps.find('\n'));
    maps.remove_prefix(std::min(line.size() + 1, maps.size()));
    // begin-end rights offset device inode path
    const size_t rights = line.find(' ');
    const size_t path = line.find('/');
    if (rights == std::string_view::npos || path == std::string_view::npos) continue;
    const size_t offset = line.find(' ', rights + 1);
    if (offset == std::string_view::npos || !line.substr(offset).starts_with(" 00000000 ")) continue;
    uint64_t begin = 0;
    if (!absl::SimpleHexAtoi(std::string(line.substr(0, line.find('-'))), &begin)) continue;
    images.push_back({begin, std::string(line.substr(path))});
  }
  return images;
}

std::optional<uint64_t> FindSymbol(const Memory& memory, const LoadedImage& image, std::string_view name) {
  return Image(memory, image.begin).Find(name);
}

}  // namespace lockstep::daemon
