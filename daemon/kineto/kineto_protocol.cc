#include "daemon/kineto/kineto_protocol.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace lockstep::daemon {
namespace {

static_assert(std::endian::native == std::endian::little,
              "both ends use the host's byte order, and we read little-endian");

constexpr size_t kTypeBytes = 32;
constexpr char kPollType[] = "req";
constexpr char kRegisterType[] = "ctxt";
constexpr size_t kRegisterBytes = 16;
constexpr size_t kPollHeadBytes = 16;

template <typename T>
T ReadAt(std::span<const std::byte> bytes, size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

std::string Encode(const char* type, std::string_view payload) {
  std::string out(kKinetoHeaderBytes, '\0');
  const uint64_t size = payload.size();
  std::memcpy(out.data(), &size, sizeof(size));
  std::memcpy(out.data() + sizeof(size), type, std::strlen(type));
  out.append(payload);
  return out;
}

absl::StatusOr<KinetoRequest> ParseRegister(std::span<const std::byte> payload) {
  if (payload.size() != kRegisterBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the register request has ", payload.size(), " bytes; expected ", kRegisterBytes));
  }
  KinetoRequest request;
  request.kind = KinetoRequest::Kind::kRegister;
  request.gpu = ReadAt<int32_t>(payload, 0);
  request.pids = {ReadAt<int32_t>(payload, 4)};
  request.job = ReadAt<int64_t>(payload, 8);
  return request;
}

absl::StatusOr<KinetoRequest> ParsePoll(std::span<const std::byte> payload) {
  if (payload.size() < kPollHeadBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the poll has ", payload.size(), " bytes"));
  }
  const auto count = ReadAt<int32_t>(payload, 4);
  if (count < 1 || static_cast<size_t>(count) > kMostKinetoPids ||
      payload.size() != kPollHeadBytes + 4 * static_cast<size_t>(count)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the poll has ", payload.size(), " bytes and claims ", count, " pids"));
  }
  KinetoRequest request;
  request.kind = KinetoRequest::Kind::kPoll;
  request.wants = ReadAt<int32_t>(payload, 0);
  request.job = ReadAt<int64_t>(payload, 8);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    request.pids.push_back(ReadAt<int32_t>(payload, kPollHeadBytes + 4 * i));
  }
  return request;
}

}  // namespace

absl::StatusOr<KinetoRequest> ParseKinetoRequest(std::span<const std::byte> datagram) {
  if (datagram.size() < kKinetoHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the datagram has ", datagram.size(), " bytes, less than a header"));
  }
  const std::span<const std::byte> payload = datagram.subspan(kKinetoHeaderBytes);
  if (ReadAt<uint64_t>(datagram, 0) != payload.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the header states ", ReadAt<uint64_t>(datagram, 0),
                                                   " bytes of payload; there are ", payload.size()));
  }
  char field[kTypeBytes];
  std::memcpy(field, datagram.data() + sizeof(uint64_t), sizeof(field));
  const std::string_view type(field, std::find(field, field + sizeof(field), '\0') - field);
  if (type == kPollType) return ParsePoll(payload);
  if (type == kRegisterType) return ParseRegister(payload);
  return absl::InvalidArgumentError("the type of the message is unknown");
}

std::string EncodeKinetoPollReply(std::string_view config) {
  return Encode(kPollType, config.substr(0, kLargestKinetoConfig));
}

std::string EncodeKinetoRegisterReply(int32_t processes) {
  char payload[sizeof(processes)];
  std::memcpy(payload, &processes, sizeof(processes));
  return Encode(kRegisterType, {payload, sizeof(payload)});
}

}  // namespace lockstep::daemon
