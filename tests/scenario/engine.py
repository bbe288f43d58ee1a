"""A job, operation by operation: host threads that launch, device streams that run, collectives that join ranks.

What it does and the product's replay does not: the launch queue is finite, so a host that is ahead blocks; kernels that run beside
communication are slower (a fluid model: the rate changes the moment communication begins or ends); each member leaves a
collective by its own exit skew. Times are nanoseconds on one true clock; clocks come later (nuisance.py).
"""
import heapq

COMPUTE, COMMUNICATION, COPY = 0, 1, 2


class Op:
    """One kernel or copy. `work` is its length when it runs alone; a communication op's length is its collective's."""
    __slots__ = ("rank", "stream", "kind", "klass", "work", "lead", "think", "call", "step", "coll", "member", "bytes", "after",
                 "blockers", "ready", "successors", "left", "since", "rate", "version", "launched", "call_end", "start", "end")

    def __init__(self, rank, stream, kind, klass, work, lead=1000.0, think=0.0, call=4000.0, step=0, bytes_=0):
        self.rank, self.stream, self.kind, self.klass, self.work = rank, stream, kind, klass, work
        self.lead, self.think, self.call, self.step, self.bytes = lead, think, call, step, bytes_
        self.coll, self.member, self.after = None, 0, ()
        self.blockers, self.ready, self.successors = 0, 0.0, []
        self.left, self.since, self.rate, self.version = 0.0, 0.0, 1.0, 0
        self.launched = self.call_end = self.start = self.end = -1.0


class Collective:
    """`kind`: "all" waits for every member; "root" and "p2p" for member 0 (root, sender); a sender whose message is
    buffered waits for nobody. `numbers`: its place in NCCL's count (of the group's function) and in a framework's (of the group)."""
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
    """Host instruction: the thread does something else; `name` when that is a runtime call that a tracer sees."""
    __slots__ = ("length", "name", "start", "end")

    def __init__(self, length, name=None):
        self.length, self.name, self.start, self.end = length, name, -1.0, -1.0


class Mark:
    """Host instruction: a step begins here (and the one before it ends)."""
    __slots__ = ("step", "at")

    def __init__(self, step):
        self.step, self.at = step, -1.0


class Sync:
    """Host instruction: block until everything launched so far on the stream has ended."""
    __slots__ = ("stream", "call", "start", "end", "op")

    def __init__(self, stream, call=3000.0):
        self.stream, self.call, self.start, self.end, self.op = stream, call, -1.0, -1.0, None


class Event:
    """Host instruction: what `target` is given from here on waits for what `source` holds now."""
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
        """`comm_slowdown`: how much longer a transfer takes when every member computes meanwhile."""
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
        """Runs the thread until something blocks it."""
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
            if op.coll.kind != "p2p":  # a message takes one or two multiprocessors: nobody notices
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
    """Kernels bound by memory suffer more from communication beside them."""
    return 1.5 if op.klass.memory else 0.8
