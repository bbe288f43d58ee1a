"""Writes a simulated job as a Lockstep timeline (docs/formats/timeline.md), with lost records and missing
ranks and metadata."""
import gzip

from engine import COMMUNICATION, COPY, Event, Gap, Launch, Mark, Sync
from nuisance import Loss


EPOCH = 1_700_000_000_000_000_000
_KINDS = {"h2d": "h2d", "d2h": "d2h"}


def _word(text):
    return "".join(c if " " < c != "%" else f"%{ord(c):02x}" for c in text)


class Names:
    def __init__(self):
        self.numbers, self.fresh = {}, []

    def of(self, text):
        if text not in self.numbers:
            self.numbers[text] = len(self.numbers)
            self.fresh.append(f"name {_word(text)}\n")
        return self.numbers[text]

    def take(self):
        fresh, self.fresh = self.fresh, []
        return fresh


def _members(ranks):
    """Returns a list of ranks such as 0-3,8."""
    parts, i = [], 0
    while i < len(ranks):
        j = i
        while j + 1 < len(ranks) and ranks[j + 1] == ranks[j] + 1:
            j += 1
        parts.append(str(ranks[i]) if i == j else f"{ranks[i]}-{ranks[j]}")
        i = j + 1
    return ",".join(parts)


class Writer:
    """`metadata`: nccl, seq, group (no numbers) or none (names only). `calls`: also write host calls and
    events."""

    def __init__(self, result, clocks, metadata="nccl", calls=True, loss=0.0, missing=(), seed=0):
        self.result, self.job, self.clocks = result, result.job, clocks
        self.metadata, self.calls, self.missing = metadata, calls, set(missing)
        self.loss = Loss(seed, loss)
        self.names = Names()
        self.window = 0.0  # true time of the start of the recording, inside the warm-up step
        self.collectives = []  # per rank: its communication ops in the order of their rows

    def write(self, path):
        self.window = 0.7 * self.result.ends[0]
        opened = gzip.open(path, "wt", compresslevel=1) if str(path).endswith(".gz") else open(path, "w")
        with opened as out:
            self._header(out)
            for rank in range(self.job.layout.world):
                if rank in self.missing:
                    self.collectives.append([])
                else:
                    self._rank(out, rank)
            out.write("end\n")

    def _header(self, out):
        layout = self.job.layout
        out.write(f"lockstep-timeline 1\njob generated-{self.job.parameters['seed']}\nworld {layout.world}\n")
        for host in range(layout.hosts):
            out.write(f"host n{host:03}\n")
        if self.metadata != "none":
            for group in layout.groups:
                out.write(f"group {group.key} {group.name} {_members(group.members)}\n")

    def _rank(self, out, rank):
        host = self.job.layout.host(rank)
        rows, calls, taken = [], [], []
        lost = self.loss.lost
        stamp = self._stamps(host)
        correlation = 0
        event = 0
        for item in self.result.programs[rank]:
            kind = type(item)
            if kind is Launch:
                op = item.op
                correlation += 1
                if op.start >= self.window and not self.loss.takes():
                    begin = stamp(op.start)
                    length = max(0, stamp(op.end) - begin)
                    rows.append(((begin, length), self._device(op, rank, begin, length, correlation), op))
                if self.calls and op.launched >= self.window and not self.loss.takes():
                    begin = stamp(op.launched)
                    name = "cudaMemcpyAsync" if op.kind == COPY else "cudaLaunchKernelExC" if op.kind == COMMUNICATION else "cudaLaunchKernel"
                    calls.append(f"a 1 {self.names.of(name)} {begin} {max(0, stamp(op.call_end) - begin)} c={correlation}\n")
            elif not self.calls:
                continue
            elif kind is Event:
                event += 1
                correlation += 2
                if item.record >= self.window:
                    begin, wait = stamp(item.record), stamp(item.wait)
                    calls.append(f"a 1 {self.names.of('cudaEventRecord')} {begin} {int(item.call * 0.9)} c={correlation - 1}\n"
                                 f"e {event} {item.source} {correlation - 1}\n"
                                 f"a 1 {self.names.of('cudaStreamWaitEvent')} {wait} {int(item.call * 0.9)} c={correlation}\n"
                                 f"w stream_wait {wait} 0 c={correlation} event={event} stream={item.target}\n")
            elif kind is Sync:
                correlation += 1
                if item.start >= self.window:
                    begin = stamp(item.start)
                    length = max(0, stamp(item.end) - begin)
                    calls.append(f"a 1 {self.names.of('cudaStreamSynchronize')} {begin} {length} c={correlation}\n"
                                 f"w stream {begin} {length} c={correlation} stream={item.stream}\n")
            elif kind is Gap and item.range is not None and item.start >= self.window:
                begin = stamp(item.start)
                calls.append(f"r 1 {self.names.of(item.range)} {begin} {max(0, stamp(item.end) - begin)}\n")
            elif kind is Gap and item.name is not None and item.start >= self.window:
                correlation += 1
                begin = stamp(item.start)
                calls.append(f"a 1 {self.names.of(item.name)} {begin} {max(0, stamp(item.end) - begin)} c={correlation}\n")
        rows.sort(key=lambda row: row[0])
        for _, _, op in rows:
            if op.kind == COMMUNICATION:
                taken.append(op)
        self.collectives.append(taken)
        steps = self._steps(rank, stamp)
        out.writelines(self.names.take())
        out.write(f"rank {rank} host={host} device={rank % self.job.layout.per_host} gpu=NVIDIA%20H100 sms=132 compute=9.0\nbase {EPOCH}\n")
        out.writelines(steps)
        out.writelines(calls)
        out.writelines(row[1] for row in rows)
        if self.loss.lost > lost:
            out.write(f"l cupti - {self.loss.lost - lost} buffers%20full 0 {stamp(self.result.ends[-1])}\n")

    def _stamps(self, host):
        clocks = self.clocks
        offset, drift = clocks.offset[host], clocks.drift[host]
        if host == clocks.stepped:
            return lambda true: int(true + clocks.error(host, true))
        return lambda true: int(true + offset + drift * true)

    def _device(self, op, rank, begin, length, correlation):
        kernel_class = op.kernel_class
        tail = f" c={correlation}" if self.calls else ""
        if op.kind == COPY:
            return f"m {op.stream} {self.names.of(kernel_class.name)} {begin} {length} {_KINDS[kernel_class.role]} {op.bytes}{tail}\n"
        if self.calls:
            tail += " g={},{},{} b={},{},{}".format(*kernel_class.grid, *kernel_class.block)
        if op.kind != COMMUNICATION or self.metadata == "none":
            return f"k {op.stream} {self.names.of(kernel_class.name)} {begin} {length}{tail}\n"
        coll = op.coll
        fields = f" bytes={op.bytes}"
        if coll.kind == "p2p":
            other = coll.ops[1 - op.member].rank
            fields += f" peer={self.job.member_of[coll.group][other]}"
        elif self.metadata == "nccl":
            fields += f" nccl={coll.numbers[0]}"
        elif self.metadata == "seq":
            fields += f" seq={coll.numbers[1]}"
        return f"c {op.stream} {self.names.of(kernel_class.name)} {begin} {length} {coll.group} {kernel_class.role}{fields}{tail}\n"

    def _steps(self, rank, stamp):
        """Returns the step marks of the host thread. Without host calls, each step begins at the end of the
        previous one."""
        steps = self.job.parameters["steps"]
        first = self.job.parameters["first_step"]
        if self.calls:
            marks = self.result.marks(rank)
        else:
            last = [0.0] * (steps + 1)
            for op in self.result.ops(rank):
                last[op.step] = max(last[op.step], op.end)
            marks = [0.0] + last
        out = []
        for k in range(1, steps + 1):
            if self.calls and marks[k] < self.window:
                continue  # the host was ahead and began this step before the recording
            begin = stamp(marks[k])
            out.append(f"s {first + k} {begin} {max(0, stamp(marks[k + 1]) - begin)}\n")
        return out


def true_collectives(writer):
    """Returns per rank [[collective, wait, transfer], ...] in the order of its communication rows. The wait
    is -1 for a sender that waited for its receiver, because its wait cannot be separated from its
    transfer."""
    out = []
    for ops in writer.collectives:
        rows = []
        for op in ops:
            coll = op.coll
            if coll.kind == "all":
                came = max(o.start for o in coll.ops)
            elif op.member == 1:
                came = coll.ops[0].start
            else:
                came = op.start if coll.buffered else -1.0
            wait = -1 if came < 0 else max(0.0, came - op.start)
            rows.append([coll.number, round(wait), round(op.end - op.start - max(0.0, wait))])
        out.append(rows)
    return out
