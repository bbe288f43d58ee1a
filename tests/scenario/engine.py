"""Simulates a job operation by operation. Host threads launch, device streams run, and collectives join
ranks.

It models three effects that the product's replay does not. The launch queue is finite, so that a host that
is ahead blocks. Kernels beside communication are slower: their rate changes when communication begins or
ends. Each member leaves a collective with its own exit skew. Times are nanoseconds on one true clock;
nuisance.py adds the hosts' clocks.
"""
import heapq

COMPUTE, COMMUNICATION, COPY = 0, 1, 2


class Op:
    """One kernel or copy. `work` is its duration when it runs alone. A communication op takes the duration of
    its collective."""
    __slots__ = ("rank", "stream", "kind", "kernel_class", "work", "lead", "think", "call", "step", "coll", "member", "bytes", "after",
                 "blockers", "ready", "successors", "left", "since", "rate", "version", "launched", "call_end", "start", "end")

    def __init__(self, rank, stream, kind, kernel_class, work, lead=1000.0, think=0.0, call=4000.0, step=0, bytes_=0):
        self.rank, self.stream, self.kind, self.kernel_class, self.work = rank, stream, kind, kernel_class, work
        self.lead, self.think, self.call, self.step, self.bytes = lead, think, call, step, bytes_
        self.coll, self.member, self.after = None, 0, ()
        self.blockers, self.ready, self.successors = 0, 0.0, []
        self.left, self.since, self.rate, self.version = 0.0, 0.0, 1.0, 0
        self.launched = self.call_end = self.start = self.end = -1.0


class Collective:
    """`kind` "all" waits for every member. "root" and "p2p" wait for member 0 (root, sender). A sender of a
    buffered message does not wait. `numbers` are its sequence numbers: NCCL counts per group and function,
    a framework per group."""
    __slots__ = ("number", "group", "operation", "kind", "size", "time", "skew", "bytes", "numbers", "arrived", "ops", "buffered")

    def __init__(self, number, group, operation, kind, size, time, skew, bytes_, numbers, buffered=False):
        self.number, self.group, self.operation, self.kind, self.size = number, group, operation, kind, size
        self.time, self.skew, self.bytes, self.numbers, self.buffered = time, skew, bytes_, numbers, buffered
        self.arrived, self.ops = 0, [None] * size


class Launch:
    """Host instruction: enqueue an op."""
    __slots__ = ("op",)

    def __init__(self, op):
        self.op = op


class Gap:
    """Host instruction: the thread is busy for `length`. `name` is set if this is a runtime call that a
    tracer sees, and `range` if the framework marks it with a range."""
    __slots__ = ("length", "name", "range", "start", "end")

    def __init__(self, length, name=None, range=None):
        self.length, self.name, self.range, self.start, self.end = length, name, range, -1.0, -1.0


class Mark:
    """Host instruction: a step begins here, and the previous one ends."""
    __slots__ = ("step", "at")

    def __init__(self, step):
        self.step, self.at = step, -1.0


class Sync:
    """Host instruction: block until all work launched on the stream so far has ended."""
    __slots__ = ("stream", "call", "start", "end", "op")

    def __init__(self, stream, call=3000.0):
        self.stream, self.call, self.start, self.end, self.op = stream, call, -1.0, -1.0, None


class Event:
    """Host instruction: later work of `target` waits for the work that `source` has now."""
    __slots__ = ("source", "target", "call", "record", "wait", "op")

    def __init__(self, source, target, call=1200.0):
        self.source, self.target, self.call, self.record, self.wait, self.op = source, target, call, -1.0, -1.0, None


class Rank:
    __slots__ = ("program", "at", "time", "depth", "outstanding", "last", "pending", "blocked", "computing", "communicating",
                 "slowdown", "latency")

    def __init__(self, program, depth, slowdown, latency, begin=0.0):
        self.program, self.at, self.time, self.depth = program, 0, begin, depth
        self.outstanding, self.last, self.pending, self.blocked = 0, {}, {}, None
        self.computing, self.communicating = [], 0
        self.slowdown, self.latency = slowdown, latency


_START, _END = 0, 1


class Engine:
    def __init__(self, ranks, comm_slowdown):
        """`comm_slowdown` is the fraction by which a transfer is longer when every member computes at the
        same time."""
        self.ranks, self.comm_slowdown = ranks, comm_slowdown
        self.heap, self.count, self.now = [], 0, 0.0

    def run(self):
        for rank in self.ranks:
            self._host(rank)
        heap = self.heap
        while heap:
            self.now, _, kind, op, version = heapq.heappop(heap)
            if kind == _START:
                self._start(op)
            elif version == op.version:
                self._end(op)
        for number, rank in enumerate(self.ranks):
            if rank.at != len(rank.program):
                raise RuntimeError(f"rank {number} never got past instruction {rank.at} of {len(rank.program)}: a collective lacks a member")

    def _push(self, time, kind, op, version=0):
        self.count += 1
        heapq.heappush(self.heap, (time, self.count, kind, op, version))

    # ---- host

    def _host(self, rank):
        """Runs the host thread until it blocks."""
        program, size = rank.program, len(rank.program)
        while rank.at < size:
            item = program[rank.at]
            kind = type(item)
            if kind is Launch:
                op = item.op
                if op.launched < 0:
                    op.launched = rank.time + op.think
                    rank.time = op.launched
                if rank.outstanding >= rank.depth:
                    rank.blocked = item
                    return
                rank.time += op.call
                op.call_end = rank.time
                self._enqueue(rank, op)
            elif kind is Gap:
                item.start = rank.time
                rank.time += item.length
                item.end = rank.time
            elif kind is Event:
                item.record = rank.time
                item.op = rank.last.get(item.source)
                rank.time += item.call
                item.wait = rank.time
                rank.time += item.call
                if item.op is not None:
                    rank.pending.setdefault(item.target, []).append(item.op)
            elif kind is Sync:
                if item.start < 0:
                    item.start = rank.time
                    item.op = rank.last.get(item.stream)
                if item.op is not None:
                    if item.op.end < 0:
                        rank.blocked = item
                        return
                    rank.time = max(rank.time, item.op.end)
                rank.time += item.call
                item.end = rank.time
            else:
                item.at = rank.time
            rank.at += 1

    def _enqueue(self, rank, op):
        rank.outstanding += 1
        op.ready = op.launched + rank.latency
        previous = rank.last.get(op.stream)
        waits = rank.pending.pop(op.stream, None)
        if previous is not None:
            self._follow(op, previous)
        if waits:
            for other in waits:
                self._follow(op, other)
        rank.last[op.stream] = op
        if op.blockers == 0:
            self._push(max(op.ready, self.now), _START, op)

    def _follow(self, op, other):
        if other.end >= 0:
            op.ready = max(op.ready, other.end + op.lead)
        else:
            op.blockers += 1
            other.successors.append(op)

    # ---- device

    def _start(self, op):
        now = self.now
        rank = self.ranks[op.rank]
        op.start = now
        if op.kind == COMPUTE:
            op.left, op.since = op.work, now
            op.rate = 1.0 / (1.0 + rank.slowdown * _share(op)) if rank.communicating else 1.0
            rank.computing.append(op)
            self._push(now + op.left / op.rate, _END, op, op.version)
        elif op.kind == COPY:
            self._push(now + op.work, _END, op, op.version)
        else:
            if op.coll.kind != "p2p":  # a message occupies one or two multiprocessors, which slows no other kernel
                rank.communicating += 1
                if rank.communicating == 1:
                    self._rerate(rank, True)
            self._arrive(op)

    def _rerate(self, rank, beside):
        now = self.now
        for op in rank.computing:
            op.left -= (now - op.since) * op.rate
            op.since = now
            op.rate = 1.0 / (1.0 + rank.slowdown * _share(op)) if beside else 1.0
            op.version += 1
            self._push(now + max(0.0, op.left) / op.rate, _END, op, op.version)

    def _arrive(self, op):
        coll = op.coll
        coll.ops[op.member] = op
        coll.arrived += 1
        if coll.kind == "all":
            if coll.arrived == coll.size:
                self._transfer(coll, coll.ops)
        elif op.member == 0:
            here = [o for o in coll.ops[1:] if o is not None]
            if coll.buffered or coll.kind == "root":
                self._transfer(coll, [op] + here)
            elif here:
                self._transfer(coll, [op] + here)
        elif coll.ops[0] is not None:
            self._transfer(coll, [op] if coll.buffered or coll.kind == "root" else [coll.ops[0], op])

    def _transfer(self, coll, ops):
        busy = sum(1 for o in ops if self.ranks[o.rank].computing)
        time = coll.time * (1.0 + self.comm_slowdown * busy / len(ops))
        for o in ops:
            self._push(self.now + time + coll.skew[o.member], _END, o, o.version)

    def _end(self, op):
        now = self.now
        rank = self.ranks[op.rank]
        op.end = now
        if op.kind == COMPUTE:
            rank.computing.remove(op)
        elif op.kind == COMMUNICATION and op.coll.kind != "p2p":
            rank.communicating -= 1
            if rank.communicating == 0 and rank.computing:
                self._rerate(rank, False)
        rank.outstanding -= 1
        for other in op.successors:
            other.ready = max(other.ready, now + other.lead)
            other.blockers -= 1
            if other.blockers == 0:
                self._push(max(other.ready, now), _START, other)
        op.successors = ()
        blocked = rank.blocked
        if blocked is not None and (type(blocked) is Launch or blocked.op is op):
            rank.blocked = None
            rank.time = max(rank.time, now)
            self._host(rank)


def _share(op):
    """Returns a kernel's share of the slowdown. Memory-bound kernels suffer more from communication beside
    them."""
    return 1.5 if op.kernel_class.memory else 0.8
