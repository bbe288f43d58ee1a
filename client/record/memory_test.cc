// Tests the client's own memory: interner, buffer pool, range stack, descriptors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/descriptor.h"
#include "client/record/arena.h"
#include "client/record/buffer_pool.h"
#include "client/record/interner.h"
#include "client/record/range_stack.h"
#include "client/record/text.h"
#include "tests/abi/support/daemon_end.h"
#include "tests/abi/support/emulation.h"

namespace lockstep::client {
namespace {

TEST(BufferPoolTest, LendsEachBufferOnceLowestFirst) {
  std::vector<std::byte> memory(64 * 64);
  BufferPool pool;
  pool.Init({memory.data(), memory.size()}, 64);
  std::set<std::byte*> lent;
  for (int i = 0; i < 64; ++i) lent.insert(pool.Acquire());
  EXPECT_EQ(lent.size(), 64u);
  EXPECT_EQ(pool.Acquire(), nullptr);
  EXPECT_EQ(pool.in_use(), 64u);
  pool.Release(9);
  pool.Release(3);
  EXPECT_EQ(pool.Acquire(), memory.data() + 3 * 64);
}

TEST(BufferPoolTest, CountsLentBuffersThatHoldRecords) {
  std::vector<std::byte> memory(4 * 64, std::byte{1});
  BufferPool pool;
  pool.Init({memory.data(), memory.size()}, 64);
  std::byte* first = pool.Acquire();
  pool.Acquire();
  EXPECT_EQ(pool.holding_records(), 0u) << "what an earlier capture left does not count";
  first[0] = std::byte{9};
  EXPECT_EQ(pool.holding_records(), 1u);
  pool.Release(0);
  EXPECT_EQ(pool.holding_records(), 0u);
}

// CUPTI keeps its pointers to lent buffers in a child.
TEST(ArenaTest, AForkedChildMayWriteToItAndSeesNothingOfTheParent) {
  if (IsEmulated()) GTEST_SKIP() << "qemu does not emulate MADV_WIPEONFORK; the native build runs this test";
  Arena arena;
  ASSERT_TRUE(arena.Reserve(1 << 20));
  const Memory part = arena.Take(1 << 16);
  part.data[5] = std::byte{7};
  const pid_t child = ::fork();
  if (child == 0) {
    const bool empty = part.data[5] == std::byte{0};
    part.data[5] = std::byte{8};
    ::_exit(empty ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(part.data[5], std::byte{7});
}

TEST(BufferPoolTest, KnowsItsOwnBuffersFromAnyOtherAddress) {
  std::vector<std::byte> memory(4 * 64);
  BufferPool pool;
  EXPECT_EQ(pool.NumberOf(memory.data()), BufferPool::kNone) << "before it has any";
  pool.Init({memory.data(), memory.size()}, 64);
  EXPECT_EQ(pool.NumberOf(memory.data() + 128), 2u);
  EXPECT_EQ(pool.NumberOf(memory.data() + 129), BufferPool::kNone);
  EXPECT_EQ(pool.NumberOf(memory.data() + 256), BufferPool::kNone);
  EXPECT_EQ(pool.NumberOf(memory.data() - 64), BufferPool::kNone);
  EXPECT_EQ(pool.NumberOf(nullptr), BufferPool::kNone);
}

TEST(BufferPoolTest, QueuesFirstInFirstOut) {
  std::vector<std::byte> memory(8 * 64);
  BufferPool pool;
  pool.Init({memory.data(), memory.size()}, 64);
  for (uint32_t i : {5u, 1u, 7u}) pool.Enqueue(i, i * 10);
  std::vector<std::pair<uint32_t, size_t>> order;
  pool.DrainQueue([&](uint32_t number, size_t valid) { order.emplace_back(number, valid); });
  EXPECT_EQ(order, (std::vector<std::pair<uint32_t, size_t>>{{5, 50}, {1, 10}, {7, 70}}));
  EXPECT_FALSE(pool.queued());
}

TEST(BufferPoolTest, ThreadsNeverShareABuffer) {
  std::vector<std::byte> memory(16 * 64);
  BufferPool pool;
  pool.Init({memory.data(), memory.size()}, 64);
  std::atomic<int> owners[16] = {};
  std::atomic<bool> shared{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        std::byte* buffer = pool.Acquire();
        if (buffer == nullptr) continue;
        const uint32_t number = pool.NumberOf(buffer);
        if (owners[number].fetch_add(1) != 0) shared = true;
        owners[number].fetch_sub(1);
        pool.Release(number);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_FALSE(shared);
  EXPECT_EQ(pool.in_use(), 0u);
}

class InternerTest : public testing::Test {
 protected:
  InternerTest() : memory_(64 << 10) {
    EXPECT_EQ(client_.Attach(daemon_.segment.fd(), daemon_.segment.bytes()), ring::AttachError::kNone);
    ring_ = client_.Writer(1);
    names_.Reset({memory_.data(), memory_.size()}, &ids_);
  }
  ~InternerTest() override { client_.Detach(); }
  uint32_t Intern(const std::string& text) {
    const uint32_t id = names_.Intern(ring_, text.data(), text.size());
    ring_.Commit();
    return id;
  }

  DaemonEnd daemon_{{.thread_ring_bytes = 32 << 10, .ring_count = 2}};
  ring::ClientSegment client_;
  ring::RingWriter ring_;
  StringIds ids_;
  std::vector<std::byte> memory_;
  Interner names_;
};

TEST_F(InternerTest, GivesEachTextOneId) {
  std::set<uint32_t> ids;
  std::string text;
  for (int length = 0; length < 40; ++length, text += static_cast<char>('a' + length % 26)) {
    const uint32_t id = Intern(text);
    EXPECT_EQ(Intern(text), id);
    EXPECT_TRUE(ids.insert(id).second) << text;
  }
  daemon_.Drain();
  EXPECT_EQ(daemon_.string_records, 40u);
}

TEST_F(InternerTest, RetriesADefinitionThatAFullRingDropped) {
  const std::string big(8000, 'f');
  while (ring_.DefineString(9999, big.data(), big.size())) {
  }
  ring_.Commit();
  EXPECT_EQ(Intern(std::string(7999, 'g')), 0u);
  daemon_.Drain();
  const uint32_t id = Intern(std::string(7999, 'g'));
  EXPECT_NE(id, 0u);
  daemon_.Drain();
  EXPECT_EQ(daemon_.strings[id].size(), 7999u);
}

TEST_F(InternerTest, ResetContinuesWithUnusedIds) {
  const uint32_t before = Intern("text");
  names_.Reset({memory_.data(), memory_.size()}, &ids_);
  const uint32_t after = Intern("text");
  EXPECT_NE(before, after);
  daemon_.Drain();
  EXPECT_EQ(daemon_.strings[after], "text");
}

TEST(RangeStackTest, APopTakesTheInnermostOfItsDomainOnly) {
  RangeStack stack;
  const int a = 0;
  const int b = 0;
  stack.Push({&a, HostTime(1), {}, 0});
  stack.Push({&b, HostTime(2), {}, 0});
  stack.Push({&a, HostTime(3), {}, 0});
  OpenRange range;
  uint32_t depth = 0;
  ASSERT_EQ(stack.Pop(&b, &range, &depth), RangeStack::Popped::kRange);
  EXPECT_EQ(range.start, HostTime(2));
  EXPECT_EQ(depth, 1u);
  ASSERT_EQ(stack.Pop(&a, &range, &depth), RangeStack::Popped::kRange);
  EXPECT_EQ(range.start, HostTime(3));
  EXPECT_EQ(stack.Pop(&b, &range, &depth), RangeStack::Popped::kUnknown);
  EXPECT_EQ(stack.depth(), 1u);
}

TEST(DescriptorTest, MovesToAHighNumberAndClosesTheLowOne) {
  Descriptor descriptor;
  EXPECT_EQ(descriptor.Use(), -1);
  const int low = ::open("/dev/null", O_RDWR);
  ASSERT_TRUE(descriptor.Take(low));
  EXPECT_GE(descriptor.Use(), 512);
  EXPECT_NE(::fcntl(descriptor.Use(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(::fcntl(low, F_GETFD), -1);
  const int high = descriptor.Use();
  descriptor.Close();
  EXPECT_EQ(::fcntl(high, F_GETFD), -1);
}

TEST(DescriptorTest, NeitherUsesNorClosesAReusedNumber) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  Descriptor descriptor;
  ASSERT_TRUE(descriptor.Take(pipe_ends[0]));
  const int number = descriptor.Use();
  const int foreign = ::open("/dev/null", O_RDWR);
  ASSERT_EQ(::dup2(foreign, number), number);
  EXPECT_EQ(descriptor.Use(), -1);
  descriptor.Close();
  EXPECT_NE(::fcntl(number, F_GETFD), -1) << "it is somebody else's";
  ::close(number);
  ::close(foreign);
  ::close(pipe_ends[1]);
}

TEST(ArenaTest, ReleasesPagesAndKeepsTheAddresses) {
  Arena arena;
  ASSERT_TRUE(arena.Reserve(1 << 20));
  const Memory a = arena.Take(5000);
  const Memory b = arena.Take(1);
  EXPECT_EQ(a.bytes, 8192u);
  EXPECT_EQ(b.data, a.data + 8192);
  EXPECT_EQ(arena.Take(1 << 20).data, nullptr);
  Arena::Touch(a);
  a.data[17] = std::byte{1};
  Arena::Discard(a);
  EXPECT_EQ(a.data[17], std::byte{0});
}

TEST(TextTest, IsCutToFitAndStaysTerminated) {
  Text<8> text;
  text << "abc" << uint64_t{12345678901ull} << "x";
  EXPECT_STREQ(text.c_str(), "abc1234");
  text.Clear();
  text << uint64_t{0} << static_cast<const char*>(nullptr);
  EXPECT_STREQ(text.c_str(), "0(null)");
}

}  // namespace
}  // namespace lockstep::client
