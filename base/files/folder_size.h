// How much a folder holds.
#ifndef LOCKSTEP_AGGREGATOR_STORE_FOLDER_SIZE_H_
#define LOCKSTEP_AGGREGATOR_STORE_FOLDER_SIZE_H_

#include <cstdint>
#include <string>

namespace lockstep::store {

// Bytes of the regular files below it; links are not followed. What cannot be read counts nothing.
uint64_t FolderBytes(const std::string& folder);

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_FOLDER_SIZE_H_
