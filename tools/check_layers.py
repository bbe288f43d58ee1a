#!/usr/bin/env python3
"""Checks the dependencies of ARCHITECTURE.md: the includes between folders, and the parts of the standard
library that product sources must not use. It runs as a test.

FOLDERS lists the top folders in the order of the data's path. Each has its rooms in order and the other
folders that it may include. A room may include the earlier rooms of its own folder, and the public headers
of those folders.

A header is public if the room's CMakeLists.txt lists it after PUBLIC (lockstep_library) or in
lockstep_public_headers(). All others are private to their room. The rules exclude circles and dependencies
against the data's path. Tests, their shared parts and benches (*_test.cc, *_fixture.h, *_bench.cc,
*_fuzzer.cc, *_fake.h) may include everything.
"""
import pathlib
import re
import sys

PROTO = "lockstep/v1"  # generated from proto/
FOLDERS = [
    ("base", ["base", "base/files", "base/json", "base/access", "base/log", "base/settings", "base/tls", "base/rpc", "base/http", "base/sqlite", "base/metrics"], []),
    ("wire", ["wire/foreign", "wire/fields", "wire/ring", "wire/columns", "wire/losses"], ["base"]),
    ("scenario", ["scenario"], ["base"]),
    # The client runs in users' processes. It may therefore use only the header-only part of base.
    ("client", ["client/record", "client/cupti", "client/nccl", "client/nvtx", "client/python", "client"], ["wire/ring", "wire/foreign", "base/*.h"]),
    ("sim", ["sim/cupti", "sim/device", "sim/driver", "sim/cudart", "sim/nccl", "sim/nccl/testing", "sim/engine", "sim/rank", "sim/rank/testing", "sim/fleet"],
     ["wire/foreign", "wire/columns", "scenario", PROTO, "base"]),
    ("daemon", ["daemon/stacks", "daemon/loop", "daemon/node", "daemon/kineto", "daemon/broker", "daemon/ras", "daemon/clients", "daemon/drain", "daemon/captures", "daemon/watch", "daemon/uplink", "daemon"],
     ["wire/fields", "wire/ring", "wire/columns", "wire/losses", PROTO, "base"]),
    ("capture", ["capture/model", "capture/store", "capture/align", "capture/infer"], ["wire/fields", "wire/columns", "base"]),
    ("analysis", ["analysis/prepare", "analysis/time", "analysis/replay", "analysis/compare", "analysis/gains", "analysis/explain", "analysis/hang", "analysis/notice"],
     ["capture", "base"]),
    ("formats", ["formats/common", "formats/files", "formats/kineto", "formats/nsys", "formats/nvprof", "formats/otf2", "formats/perfetto",
                 "formats/timeline", "formats/python", "formats/flight_recorder", "formats/ras", "formats/scenario", "formats/input"],
     ["analysis/time", "analysis/hang", "capture", "scenario", "base"]),
    ("report", ["report/fields", "report", "report/text"], ["analysis", "capture", "base"]),
    ("views", ["views/host", "views/device", "views/tables", "views/catalog"], ["report", "formats/common", "analysis", "capture", "wire/fields", "base"]),
    ("web", ["web/page"], ["views", "report", "analysis", "capture", "base"]),
    ("history", ["history/database", "history", "history/output"], ["views/tables", "base"]),
    ("aggregator", ["aggregator/nodes", "aggregator/captures", "aggregator/ingest", "aggregator/live", "aggregator/reports", "aggregator/notice", "aggregator/site", "aggregator"],
     ["web", "formats", "report", "analysis", "capture", "wire/columns", "wire/losses", PROTO, "base"]),
    ("cli", ["cli/common", "cli/commands", "cli/launch", "cli/doctor", "cli/top", "cli/hang", "cli"],
     ["aggregator", "history", "web", "views", "formats", "report", "analysis", "capture", "scenario", PROTO, "base"]),
]
ROOMS = [room for _, rooms, _ in FOLDERS for room in rooms]
LARGEST_ROOM = 40  # files
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
# The client may use only the header-only parts of the standard library.
CLIENT_FORBIDDEN = re.compile(r'^\s*#\s*include\s+<(string|vector|map|unordered_map|thread|mutex|iostream|fstream|memory|'
                              r'condition_variable|future|regex|sstream|deque|list|set)>')
# Both throw an exception if a file or folder disappears during the read, as files of a process in /proc do.
THROWS = re.compile(r"istreambuf_iterator|for \([^;]* : [^;]*directory_iterator\(")
TEST = ("_test", "_fixture", "_bench", "_fuzzer", "_fake")
PUBLIC = re.compile(r"(?:\bPUBLIC\s|\blockstep_public_headers\()((?:\s*[\w./]+\.(?:h|def)\b)+)")


def is_test(path: pathlib.PurePath) -> bool:
    return path.stem.endswith(TEST) or path.name == "client_fake_main.cc"


def room_of(path: str):
    if path.startswith(PROTO + "/"):
        return PROTO
    folder = path.rpartition("/")[0]
    return folder if folder in ROOMS else None


def public_headers(root: pathlib.Path) -> set:
    found = set()
    for top, _, _ in FOLDERS:
        text = re.sub(r"#.*", "", (root / top / "CMakeLists.txt").read_text())
        for group in PUBLIC.findall(text):
            found.update(f"{top}/{name}" for name in group.split())
    return found


def allowed(target_room: str, header: str, others: list) -> bool:
    for other in others:
        if other == "base/*.h":
            if target_room == "base":
                return True
        elif target_room == other or target_room.startswith(other + "/"):
            return True
    return False


def check_file(root: pathlib.Path, file: pathlib.Path, top: str, before: list, room: str, others: list, public: set, bad: list):
    rel = file.relative_to(root).as_posix()
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
        if top == "client" and CLIENT_FORBIDDEN.match(line):
            bad.append(f"{rel}:{number}: the client links no libstdc++: {line.strip()}")
        if THROWS.search(line):
            bad.append(f"{rel}:{number}: throws when it goes away meanwhile: take FileText or FolderEntries of base/files/read_files.h: {line.strip()}")
        match = INCLUDE.match(line)
        if not match:
            continue
        header = match.group(1)
        target = room_of(header)
        if target is None or target == room:
            continue
        if is_test(pathlib.PurePath(header)):
            bad.append(f"{rel}:{number}: nothing stands on a test ({header})")
        elif target not in before and not allowed(target, header, others):
            bad.append(f"{rel}:{number}: {room} may not include {target} ({header})")
        elif target != PROTO and header not in public:
            bad.append(f"{rel}:{number}: {header} is private to {target}: its CMakeLists.txt does not list it after PUBLIC")


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    public = public_headers(root)
    bad = [f"{header}: public in CMakeLists.txt, and not there" for header in sorted(public) if not (root / header).exists()]
    for top, rooms, others in FOLDERS:
        for file in sorted((root / top).rglob("*")):
            room = file.parent.relative_to(root).as_posix()
            if file.suffix not in (".h", ".cc", ".c", ".def"):
                continue
            if room not in rooms:
                bad.append(f"{file.relative_to(root)}: its folder is not in FOLDERS of tools/check_layers.py")
            elif not is_test(file):
                check_file(root, file, top, rooms[:rooms.index(room)], room, others, public, bad)
        for room in rooms:
            files = sum(1 for f in (root / room).iterdir() if f.is_file())
            if files > LARGEST_ROOM:
                bad.append(f"{room}: {files} files; a room has at most {LARGEST_ROOM}: split it by purpose")
    for line in bad:
        print(line)
    print(f"check_layers: {len(bad)} broken rules")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
