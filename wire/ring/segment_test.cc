// Tests creating, passing, checking and adopting segments, and two processes that share one.
#include "wire/ring/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/abi/support/emulation.h"
#include "wire/ring/client_segment.h"
#include "wire/ring/socket_io.h"
#include "wire/ring/writer.h"

namespace lockstep::ring {
namespace {

Segment Make(const SegmentOptions& options) {
  Segment segment;
  EXPECT_EQ(Segment::Create(options, &segment), SegmentError::kNone);
  return segment;
}

TEST(SegmentTest, HasTheRequestedSizes) {
  Segment segment = Make({.main_ring_bytes = 64 << 10, .incarnation = 42, .epoch = 3});
  EXPECT_EQ(segment.ring_count(), kMaxRings);
  EXPECT_EQ(segment.bytes(), RingHeadersEnd() + (64 << 10) + 63 * kDefaultThreadRingBytes + kProgressBytes +
                                 kLogBytes + kNetworkBytes);
  EXPECT_EQ(segment.incarnation(), 42u);
  EXPECT_EQ(segment.header()->epoch.load(), 3u);
  EXPECT_EQ(segment.header()->magic, kMagic);
  EXPECT_EQ(std::memcmp(segment.header(), "LCKSTEP1", 8), 0) << "the magic reads as text in a dump";
}

TEST(SegmentTest, RoundsRingSizesUpToHoldTheLargestRecord) {
  Segment segment = Make({.main_ring_bytes = 65537, .thread_ring_bytes = 1, .ring_count = 2});
  EXPECT_EQ(segment.bytes(),
            RingHeadersEnd() + (128 << 10) + kMinRingBytes + kProgressBytes + kLogBytes + kNetworkBytes);
}

TEST(SegmentTest, RefusesImpossibleSizes) {
  Segment segment;
  EXPECT_EQ(Segment::Create({.ring_count = 0}, &segment), SegmentError::kOptions);
  EXPECT_EQ(Segment::Create({.ring_count = kMaxRings + 1}, &segment), SegmentError::kOptions);
  EXPECT_EQ(Segment::Create({.main_ring_bytes = uint64_t{1} << 62}, &segment), SegmentError::kOptions);
  EXPECT_FALSE(segment.ok());
}

TEST(SegmentTest, CannotBeResized) {
  Segment segment = Make({.ring_count = 1});
  EXPECT_NE(::ftruncate(segment.fd(), 0), 0);
  EXPECT_NE(::ftruncate(segment.fd(), static_cast<off_t>(segment.bytes() * 2)), 0);
  EXPECT_NE(::fcntl(segment.fd(), F_ADD_SEALS, F_SEAL_WRITE), 0) << "nor can a peer forbid writing to it";
}

TEST(ClientSegmentTest, RefusesAnUnsealedSegment) {
  Fd plain(::memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(plain.get(), 1 << 20), 0);
  ClientSegment client;
  EXPECT_EQ(client.Attach(plain.get(), 1 << 20), AttachError::kNotSealed);
  Fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(client.Attach(file.get(), 1 << 20), AttachError::kNotSealed);
  EXPECT_EQ(client.Attach(-1, 1 << 20), AttachError::kNotSealed);
}

TEST(ClientSegmentTest, RefusesAnotherSizeThanAnnounced) {
  Segment segment = Make({.ring_count = 1});
  ClientSegment client;
  EXPECT_EQ(client.Attach(segment.fd(), segment.bytes() + 8), AttachError::kSize);
}

TEST(ClientSegmentTest, RefusesImpossibleHeaders) {
  for (int lie = 0; lie < 6; ++lie) {
    Segment segment = Make({.main_ring_bytes = 64 << 10, .ring_count = 2});
    auto* base = reinterpret_cast<std::byte*>(segment.header());
    RingHeader* rings = RingHeaderAt(base, 0);
    switch (lie) {
      case 0:
        segment.header()->magic = 0;
        break;
      case 1:
        segment.header()->layout_major = kLayoutMajor + 1;
        break;
      case 2:
        segment.header()->ring_count = kMaxRings + 1;
        break;
      case 3:
        rings[1].offset = rings[0].offset;
        break;  // overlapping
      case 4:
        rings[0].capacity = (64 << 10) - 8;
        break;  // not a power of two
      case 5:
        rings[1].offset = segment.bytes() - 64;
        break;  // leaves the segment
    }
    ClientSegment client;
    EXPECT_EQ(client.Attach(segment.fd(), segment.bytes()), AttachError::kGeometry) << "lie " << lie;
  }
}

TEST(ClientSegmentTest, IsNotInheritedByAForkedChild) {
  if (IsEmulated()) GTEST_SKIP() << "qemu does not emulate MADV_DONTFORK; the native build runs this test";
  Segment segment = Make({.ring_count = 1});
  ClientSegment client;
  ASSERT_EQ(client.Attach(segment.fd(), segment.bytes()), AttachError::kNone);
  const pid_t child = ::fork();
  if (child == 0) {
    unsigned char resident;
    // mincore fails with ENOMEM if nothing is mapped.
    ::_exit(::mincore(&client.header(), kHeaderBytes, &resident) == 0 ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  client.Detach();
}

// ---- packets ----

class PacketTest : public testing::Test {
 protected:
  PacketTest() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    left_.reset(pair[0]);
    right_.reset(pair[1]);
  }
  Fd left_;
  Fd right_;
  char buffer_[64];
  size_t length_ = 0;
  Fd descriptor_;
};

TEST_F(PacketTest, CarriesBytesAndOneDescriptor) {
  Segment segment = Make({.ring_count = 1});
  ASSERT_EQ(SendPacket(left_.get(), "welcome", 7, segment.fd()), PacketStatus::kOk);
  ASSERT_EQ(ReceivePacket(right_.get(), buffer_, sizeof buffer_, &length_, &descriptor_), PacketStatus::kOk);
  EXPECT_EQ(length_, 7u);
  ASSERT_TRUE(descriptor_.ok());
  EXPECT_NE(::fcntl(descriptor_.get(), F_GETFD) & FD_CLOEXEC, 0);
  ClientSegment client;
  EXPECT_EQ(client.Attach(descriptor_.get(), segment.bytes()), AttachError::kNone);
  client.Detach();
}

TEST_F(PacketTest, DistinguishesNoPacketFromADisconnectedPeer) {
  EXPECT_EQ(ReceivePacket(right_.get(), buffer_, sizeof buffer_, &length_, &descriptor_),
            PacketStatus::kNothing);
  left_.reset();
  EXPECT_EQ(ReceivePacket(right_.get(), buffer_, sizeof buffer_, &length_, &descriptor_),
            PacketStatus::kClosed);
  EXPECT_EQ(SendPacket(right_.get(), "x", 1), PacketStatus::kClosed) << "and raises no SIGPIPE";
}

TEST_F(PacketTest, RefusesATooLargePacketAndClosesItsDescriptors) {
  const std::vector<char> big(sizeof buffer_ + 1, 'b');
  Segment segment = Make({.ring_count = 1});
  ASSERT_EQ(SendPacket(left_.get(), big.data(), big.size(), segment.fd()), PacketStatus::kOk);
  EXPECT_EQ(ReceivePacket(right_.get(), buffer_, sizeof buffer_, &length_, &descriptor_),
            PacketStatus::kTooLarge);
  EXPECT_FALSE(descriptor_.ok());
  ASSERT_EQ(SendPacket(left_.get(), "ok", 2), PacketStatus::kOk);
  EXPECT_EQ(ReceivePacket(right_.get(), buffer_, sizeof buffer_, &length_, &descriptor_), PacketStatus::kOk);
  EXPECT_EQ(length_, 2u);
}

TEST_F(PacketTest, ClosesDescriptorsBeyondTheFirst) {
  const int before = ::dup(0);
  ::close(before);
  int many[10];
  for (int& fd : many) fd = 0;
  iovec part{buffer_, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof many)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof many);
  std::memcpy(CMSG_DATA(header), many, sizeof many);
  ASSERT_EQ(::sendmsg(left_.get(), &message, 0), 1);
  ASSERT_EQ(ReceivePacket(right_.get(), buffer_, sizeof buffer_, &length_, &descriptor_), PacketStatus::kOk);
  descriptor_.reset();
  const int after = ::dup(0);
  ::close(after);
  EXPECT_EQ(after, before) << "a descriptor leaked";
}

// ---- two processes ----

// The client process. It receives its segment over the socket like the real client, and writes numbered
// records until it is killed.
[[noreturn]] void WriteUntilKilled(int socket) {
  char byte;
  size_t length;
  Fd memfd;
  while (ReceivePacket(socket, &byte, 1, &length, &memfd) == PacketStatus::kNothing) ::usleep(100);
  struct stat info;
  if (::fstat(memfd.get(), &info) != 0) ::_exit(2);
  ClientSegment client;
  if (client.Attach(memfd.get(), static_cast<uint64_t>(info.st_size)) != AttachError::kNone) ::_exit(3);
  RingWriter writer = client.Writer(0);
  for (uint32_t i = 0;;) {
    auto* record = writer.New<KernelRecord>();
    if (record == nullptr) {
      ::usleep(50);
      continue;
    }
    std::memset(static_cast<void*>(&record->start_ns), static_cast<int>(i & 0xFF),
                sizeof *record - sizeof(RecordHeader));
    record->correlation = i++;
    writer.Commit();
  }
}

TEST(TwoProcesses, ReadsAllThatAKilledClientCommitted) {
  for (int round = 0; round < 20; ++round) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(pair[0]);
      WriteUntilKilled(pair[1]);
    }
    Fd socket(pair[0]);
    ::close(pair[1]);
    Segment segment = Make({.main_ring_bytes = 64 << 10, .ring_count = 1});
    ASSERT_EQ(SendPacket(socket.get(), "w", 1, segment.fd()), PacketStatus::kOk);
    RingReader reader = segment.Reader(0);
    alignas(8) std::byte scratch[kMaxRecordBytes];
    uint32_t next = 0;
    const auto drain = [&] {
      while (reader.Read(scratch) == ReadStatus::kRecords) {
        RecordView view;
        while (reader.Next(&view)) {
          const auto record = view.as<KernelRecord>();
          ASSERT_EQ(record.correlation, next);
          ASSERT_EQ(static_cast<uint8_t>(record.graph_node >> 56), static_cast<uint8_t>(next));
          ASSERT_EQ(static_cast<uint8_t>(record.channel), static_cast<uint8_t>(next));
          ++next;
        }
        reader.Free();
      }
    };
    while (next < 500u + static_cast<uint32_t>(round) * 100u && !testing::Test::HasFatalFailure()) drain();
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    drain();
    EXPECT_FALSE(reader.broken()) << Explain(reader.broken_reason());
    EXPECT_EQ(reader.Pending(), 0u);
  }
}

}  // namespace
}  // namespace lockstep::ring
