"""Counts the rows of records/ by kind, according to docs/formats/columns.md. It shares no code with the
product.

  count_records.py CAPTURE    prints one line per file: {"file": …, "rows": {"kernel": n, …}}

It decodes the columns of each block to count rows, and does not rely on the header.
"""
import json
import pathlib
import struct
import subprocess
import sys
import zlib

HEADER = struct.Struct("<IHHIIIIQQ")
MAGIC = 0x3142534C
KINDS = {1: "string", 2: "kernel", 3: "memcpy", 4: "memset", 5: "api", 6: "sync", 7: "external_correlation",
         8: "cuda_event", 9: "overhead", 10: "range", 11: "communicator", 12: "collective", 13: "point_to_point",
         14: "clock", 15: "kernel_channel", 16: "proxy_op", 17: "thread_name", 18: "device", 19: "context", 20: "stream",
         21: "memory_op"}


def blocks_of(data):
    """Yields (kind, rows, raw_bytes, stored payload) of every complete block."""
    at = 0
    while at < len(data):
        if at + HEADER.size > len(data):
            raise ValueError(f"half a header at byte {at}")
        magic, _, kind, rows, raw, stored, checksum, _, _ = HEADER.unpack_from(data, at)
        payload = data[at + HEADER.size:at + HEADER.size + stored]
        if magic != MAGIC or len(payload) != stored:
            raise ValueError(f"no whole block at byte {at}")
        header = bytearray(data[at:at + HEADER.size])
        header[20:24] = b"\0\0\0\0"
        if zlib.crc32(payload, zlib.crc32(bytes(header))) != checksum:
            raise ValueError(f"checksum of the block at byte {at} is wrong")
        yield kind, rows, raw, payload
        at += HEADER.size + stored


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def rows_in(kind, rows, payload):
    """Returns the number of rows in the payload. Every column that is not constant must have exactly `rows`
    values."""
    at = 0
    if kind == 1:
        count = 0
        while at < len(payload):
            _, at = varint(payload, at)
            length, at = varint(payload, at)
            at += length
            count += 1
        return count
    columns = payload[0]
    at = 1
    for _ in range(columns):
        mode = payload[at]
        at += 1
        for _ in range(rows if mode == 1 else 1):
            _, at = varint(payload, at)
    if at != len(payload):
        raise ValueError(f"{len(payload) - at} bytes left over in a block of {KINDS.get(kind, kind)}")
    return rows


def count_file(path):
    found = list(blocks_of(path.read_bytes()))
    # Adjacent zstd frames decompress as one stream, so that one process serves the whole file.
    done = subprocess.run(["zstd", "-dcq"], input=b"".join(b[3] for b in found), capture_output=True, check=True)
    counts, at = {}, 0
    for kind, rows, raw, _ in found:
        name = KINDS.get(kind, str(kind))
        counts[name] = counts.get(name, 0) + rows_in(kind, rows, done.stdout[at:at + raw])
        at += raw
    if at != len(done.stdout):
        raise ValueError(f"{path}: decompressed bytes and headers disagree")
    return counts


def count_capture(folder):
    folder = pathlib.Path(folder)
    if (folder / "records").is_dir():
        folder = folder / "records"
    return {path.name: count_file(path) for path in sorted(folder.glob("*.lsr"))}


if __name__ == "__main__":
    for name, rows in count_capture(sys.argv[1]).items():
        print(json.dumps({"file": name, "rows": rows}))
