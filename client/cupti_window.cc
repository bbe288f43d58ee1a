// CuptiSource, our thread: from the window's opening until its last record has come back.
#include "client/cupti/cupti_source.h"
#include "wire/ring/handshake.h"

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;
using cupti::Result;

constexpr Nanos kCompleteLimit = Nanos::Seconds(2);
constexpr Nanos kForcedLimit = Nanos::Millis(500);
constexpr Nanos kBetweenLooks = Nanos::Millis(10);
// A stream or thread that fell silent may hold a record of the window; after this long without any, none is
// expected.
constexpr Nanos kQuiet = Nanos::Millis(300);

}  // namespace

void CuptiSource::OpenWindow() {
  size_t before = 0;
  api_.GetNumDroppedRecords(nullptr, 0, &before);
  count_dropped_.store(true);
}

void CuptiSource::DescribeObjects() {
  // An older daemon would count each as lost.
  if (!undescribed_ || segment_->header().layout_minor < ring::kMinorWithObjects) return;
  undescribed_ = false;
  // Without the function that dumps, or when it fails, the capture is as good, and its devices stay nameless.
  const auto enable = api_.EnableAndDump != nullptr ? api_.EnableAndDump : api_.Enable;
  constexpr struct {
    ActivityKind kind;
    size_t least_bytes;
  } kObjects[] = {{ActivityKind::kDevice, cupti::kDeviceBytesOldest},
                  {ActivityKind::kContext, cupti::kContextBytesOldest},
                  {ActivityKind::kStream, sizeof(cupti::Stream)}};
  for (const auto& object : kObjects) {
    if (RecordBytes(api_, object.kind) < object.least_bytes || enable(object.kind) != Result::kSuccess)
      continue;
    Remember(Undo::kDisable, static_cast<uint32_t>(object.kind));
  }
}

void CuptiSource::Flush() {
  api_.FlushAll(0);
  CountDropped();
}

void CuptiSource::WaitForWindow(MonoTime since) {
  MonoTime last_inside = since;
  uint32_t inside = converter_.buffers_inside();
  do {
    api_.FlushAll(0);
    const MonoTime now = timing_.monotonic();
    if (converter_.buffers_inside() != inside) {
      inside = converter_.buffers_inside();
      last_inside = now;
    }
    if (converter_.unfinished_lanes() == 0 && inside != 0) return;
    if (now - last_inside > kQuiet) return;
    timing_.pause(kBetweenLooks);
  } while (timing_.monotonic() - since < kCompleteLimit);
}

void CuptiSource::Drain() {
  if (!armed_) return;
  MonoTime since = timing_.monotonic();
  // Still recording: what starts behind the window on a stream or thread shows that it has nothing of the
  // window left.
  WaitForWindow(since);
  UndoAll();
  // CUPTI gives a buffer back only when all its records are complete.
  for (api_.FlushAll(0); buffers_lent() && timing_.monotonic() - since < kCompleteLimit; api_.FlushAll(0)) {
    timing_.pause(kBetweenLooks);
  }
  api_.FlushAll(cupti::kFlushForced);
  since = timing_.monotonic();
  while (buffers_lent() && timing_.monotonic() - since < kForcedLimit) timing_.pause(kBetweenLooks);
  CountDropped();
  LookForRivals();
  Finish();
}

void CuptiSource::Abort() {
  if (!armed_) return;
  collecting_.store(false);
  UndoAll();
  api_.FlushAll(cupti::kFlushForced);
  const MonoTime since = timing_.monotonic();
  while (buffers_lent() && timing_.monotonic() - since < kForcedLimit) timing_.pause(kBetweenLooks);
  Finish();
}

void CuptiSource::Finish() {
  collecting_.store(false);
  count_dropped_.store(false);
  // A thread may still be converting: the ring is its until it is done. It is bounded work.
  uint32_t nobody = 0;
  while (!converting_.compare_exchange_strong(nobody, 1)) {
    nobody = 0;
    timing_.pause(kBetweenLooks);
  }
  converter_.End();
  records_ = converter_.ring().records();
  outside_ = converter_.outside();
  ring::ReleaseRing(segment_->ring(0));
  armed_ = false;
  converting_.store(0);
}

}  // namespace lockstep::client
