"""Hostile files for `lockstep analyze`. Each ends with a result or an error, within a time and a memory limit."""
import gzip
import json
import os
import resource
import sqlite3
import struct
import subprocess
import threading
import time
import zlib

from row import Row

MOST_S, MOST_MIB = 120, 4096
ENDS = (0, 1, 2, 3, 7)
ZEROS = b"\0" * (64 << 20)


def analyze(turn, path):
    """Runs `lockstep analyze` under the limits. Every end but a normal exit is a failure."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MIB << 20, MOST_MIB << 20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    began = time.monotonic()
    with open(turn.work / "printed", "w+b") as printed:
        process = subprocess.Popen([str(turn.programs.bin / "lockstep"), "analyze", str(path)], stdin=subprocess.DEVNULL, stdout=printed, stderr=printed,
                                   preexec_fn=limit)
        alarm = threading.Timer(MOST_S, process.kill)
        alarm.start()
        _, status, usage = os.wait4(process.pid, 0)
        alarm.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        text = printed.read().decode(errors="replace").strip()
    turn.most("s", time.monotonic() - began, "{:.1f}")
    turn.most("MiB", usage.ru_maxrss // 1024)
    assert process.returncode in ENDS, f"{path.name}: ends with {process.returncode} after {time.monotonic() - began:.0f} s: {text[-500:]}"
    assert text, f"{path.name}: exit {process.returncode} without a sentence"
    turn.set(f"exit {process.returncode}", text.splitlines()[-1 if process.returncode in (1, 2) else 0][-160:].replace("|", "/").replace(str(turn.work), ""))


def bomb(suffix, write):
    """Returns a row's function: `write(path)` makes the file."""
    def run(turn):
        path = turn.work / f"bomb{suffix}"
        write(path)
        analyze(turn, path)
        if path.is_file():
            path.unlink()
    return run


# ---- records/

def zstd(raw):
    return subprocess.run(["zstd", "-1", "-cq", f"--stream-size={len(raw)}"], input=raw, capture_output=True, check=True).stdout


def zeros_frame(size):
    """Returns one frame of zeros that states its content size."""
    command = f"head -c {size} /dev/zero | zstd -1 -cq --stream-size={size}"
    return subprocess.run(["sh", "-c", command], capture_output=True, check=True).stdout


def block(kind, rows, raw_bytes, stored, sequence):
    header = struct.pack("<IHHIIIIQQ", 0x3142534C, 2, kind, rows, raw_bytes, len(stored), 0, 1, sequence)
    checksum = zlib.crc32(stored, zlib.crc32(header))
    return header[:20] + struct.pack("<I", checksum) + header[24:] + stored


def records(path, blocks, ranks=2):
    """Writes a capture's folder whose files hold these blocks."""
    folder = path / "records"
    folder.mkdir(parents=True)
    data = b"".join(blocks)
    processes = []
    for rank in range(ranks):
        name = f"r{rank:05}.p{rank:05}.1.lsr"
        (folder / name).write_bytes(data)
        processes.append({"rank": rank, "host": 0, "pid": 100 + rank, "start_ticks": 1, "uid": 0, "incarnation": 1, "program": "x", "rank_source": "x",
                          "t0_host_ns": 10**18, "t1_host_ns": 10**18 + 10**9, "state": "done", "text": "", "files": [{"name": name, "bytes": len(data), "rows": {}}],
                          "losses": []})
    (folder / "manifest.json").write_text(json.dumps({
        "schema": "lockstep.records/1", "id": "20260101-000000-aaaaaa", "job": "x", "uid": 0, "world_size": ranks, "activities": 255, "t0_ns": 10**18,
        "t1_ns": 10**18 + 10**9, "requested_ns": 10**9, "complete": True, "missing_ranks": [], "notes": [],
        "hosts": [{"id": "n", "name": "n", "exchanges": []}], "processes": processes}))


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def constant_columns(path, number):
    """65,536 rows of kernels in 60 bytes, `number` times in each of two files."""
    columns = [10**18 + 1000, 500, *[1] * 18]
    raw = bytes([len(columns)]) + b"".join(b"\0" + varint(value) for value in columns)
    stored = zstd(raw)
    records(path, [block(2, 65536, len(raw), stored, 65536 * n) for n in range(number)])


def oversized_block(path):
    """The frame states 4 GiB - 1, as the header does."""
    size = (1 << 32) - 1
    records(path, [block(2, 65536, size, zeros_frame(size), 0)])


def lying_block(path):
    """The header states 64 MiB, the frame more."""
    records(path, [block(1, 65536, 64 << 20, zeros_frame(256 << 20), 0)])


def long_string(path):
    """One name of almost 64 MiB, in 50 blocks."""
    raw = varint(1) + varint((63 << 20)) + b"n" * (63 << 20)
    records(path, [block(1, 1, len(raw), zstd(raw), n) for n in range(50)])


# ---- other formats

def gzip_members(path, head, number=64):
    """Writes `number` members of 64 MiB of zeros behind a text: 4 GiB in 4 MB."""
    path.write_bytes(gzip.compress(head) + gzip.compress(ZEROS, 9) * number)


KINETO = b'{"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": ['
EVENT = '{"ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": 7, "ts": %s, "dur": %s, "args": {"device": 0, "stream": 7, "correlation": 1}}'


def kineto_gzip(path):
    gzip_members(path, KINETO)


def kineto_events_gzip(path):
    """20 million equal events in a small file."""
    member = gzip.compress((EVENT % ("k", 1, 1) + ",\n").encode() * 100_000, 9)
    path.write_bytes(gzip.compress(KINETO) + member * 200 + gzip.compress(b"{}]}"))


def kineto_deep(path):
    path.write_bytes(KINETO + b'{"args": ' + b"[" * 50_000_000)


def kineto_deep_objects(path):
    path.write_bytes(KINETO + b'{"a":' * 10_000_000 + b"1" + b"}" * 10_000_000 + b"]}")


def kineto_numbers(path):
    huge = ("1e308", "-1e308", "9" * 1_000_000, "1e999999999", "18446744073709551616", "-9223372036854775809", "0." + "0" * 100_000 + "1")
    path.write_bytes(KINETO + ",\n".join(EVENT % ("k", ts, dur) for ts in huge for dur in huge).encode() + b"]}")


def kineto_long_name(path):
    path.write_bytes(KINETO + (EVENT % ("n" * (512 << 20), 1, 1)).encode() + b"]}")


def timeline_gzip(path):
    gzip_members(path, b"lockstep-timeline 1\n")


def timeline_numbers(path):
    path.write_text("lockstep-timeline 1\nworld 4294967295\nhost a\ngroup g g 0-4294967295\nname k\nrank 0 host=0\nbase 9223372036854775807\n"
                    "k 1 0 9223372036854775807 9223372036854775807\nend\n")


def timeline_members(path):
    """Each of 10,000 groups has ten million members, written in 30 bytes."""
    groups = "".join(f"group g{n} g{n} 0-9999999\n" for n in range(10_000))
    path.write_text(f"lockstep-timeline 1\nworld 10000000\nhost a\n{groups}name k\nrank 0 host=0\nbase 0\nk 1 0 1 1\nend\n")


def timeline_line(path):
    with open(path, "wb") as file:
        file.write(b"lockstep-timeline 1\nnote ")
        for _ in range(16):
            file.write(b"x" * (64 << 20))


NVPROF = "==1== NVPROF is profiling process 1, command: x\n==1== Profiling result:\n"


def nvprof_gzip(path):
    gzip_members(path, NVPROF.encode())


def nvprof_numbers(path):
    names = '"Start","Duration","Grid X","Device","Context","Stream","Name"\nns,ns,,,,,\n'
    path.write_text(NVPROF + names + "".join(f'{ts},{ts},{ts},"V100 (0)",1,7,"k"\n' for ts in ("1e308", "9" * 100_000, "-1", "1e999999")))


def nvprof_columns(path):
    path.write_text(NVPROF + ",".join(f'"c{n}"' for n in range(2_000_000)) + "\n")


def nsys_view(path):
    """The table of kernels is a view without an end."""
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    database.execute("INSERT INTO StringIds VALUES (1, 'k')")
    database.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
                     "SELECT n AS start, n + 1 AS end, 0 AS deviceId, 1 AS contextId, 7 AS streamId, n AS correlationId, 1 AS globalPid, 1 AS demangledName, "
                     "1 AS shortName, 1 AS gridX, 1 AS gridY, 1 AS gridZ, 1 AS blockX, 1 AS blockY, 1 AS blockZ FROM r")
    database.commit()
    database.close()


def nsys_values(path):
    """Strings of 200 MB, and times at the ends of 64 bits."""
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    database.execute("INSERT INTO StringIds VALUES (1, CAST(zeroblob(200000000) AS TEXT))")
    database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, globalPid INT, "
                     "demangledName INT, shortName INT, gridX INT, gridY INT, gridZ INT, blockX INT, blockY INT, blockZ INT)")
    for start, end in ((0, 2**63 - 1), (-2**63, 2**63 - 1), (2**63 - 1, -2**63)):
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, 7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)", (start, end))
    database.commit()
    database.close()


def merged_gzip(path):
    """Perfetto's format is written and not read: the file is refused."""
    gzip_members(path, b"\x0a\x0c")


def otf2(path):
    """OTF2 is written and not read: the folder is refused."""
    path.mkdir()
    (path / "traces.otf2").write_bytes(b"OTF2" + ZEROS)
    (path / "traces.def").write_bytes(ZEROS)


BOMBS = (
    ("records-constant", "records/: 2 x 200 blocks of 65,536 equal kernels, 26 million rows in 50 KB", "", lambda path: constant_columns(path, 200)),
    ("records-4-gib", "records/: a block whose header and frame state 4 GiB", "", oversized_block),
    ("records-lying", "records/: a frame of 256 MiB in a block of 64 MiB", "", lying_block),
    ("records-names", "records/: 50 names of 63 MiB", "", long_string),
    ("kineto-gzip", "Kineto: 4 GiB of zeros in 4 MB", ".json.gz", kineto_gzip),
    ("kineto-events", "Kineto: 20 million events in a gzip file", ".json.gz", kineto_events_gzip),
    ("kineto-deep", "Kineto: 50 million open brackets", ".json", kineto_deep),
    ("kineto-objects", "Kineto: 10 million nested objects", ".json", kineto_deep_objects),
    ("kineto-numbers", "Kineto: times of 1e308, of a million digits, beyond 64 bits", ".json", kineto_numbers),
    ("kineto-name", "Kineto: a name of 512 MiB", ".json", kineto_long_name),
    ("timeline-gzip", "timeline: 4 GiB of zeros in 4 MB", ".timeline.gz", timeline_gzip),
    ("timeline-numbers", "timeline: numbers at the ends of 32 and 64 bits", ".timeline", timeline_numbers),
    ("timeline-members", "timeline: 10,000 groups of ten million ranks", ".timeline", timeline_members),
    ("timeline-line", "timeline: a line of 1 GiB", ".timeline", timeline_line),
    ("nvprof-gzip", "nvprof: 4 GiB of zeros in 4 MB", ".csv.gz", nvprof_gzip),
    ("nvprof-numbers", "nvprof: times of 1e308 and of 100,000 digits", ".csv", nvprof_numbers),
    ("nvprof-columns", "nvprof: two million columns", ".csv", nvprof_columns),
    ("nsys-view", "nsys: a table of kernels without an end (a recursive view)", ".sqlite", nsys_view),
    ("nsys-values", "nsys: a string of 200 MB, times at the ends of 64 bits", ".sqlite", nsys_values),
    ("perfetto", "a Perfetto trace of 4 GiB in 4 MB", ".pftrace", merged_gzip),
    ("otf2", "an OTF2 archive of zeros", "", otf2),
)
# They need no job, and most take less than a second.
IN_SHORT = ("kineto-numbers", "timeline-numbers", "nvprof-numbers", "nsys-values", "records-4-gib")
ROWS = [Row(f"bomb-{name}", text, bomb(suffix, write), 1, short=name in IN_SHORT) for name, text, suffix, write in BOMBS]
