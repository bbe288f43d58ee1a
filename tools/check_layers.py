#!/usr/bin/env python3
"""The arrows of ARCHITECTURE.md: which folder may include which, and what no product source may use. Runs as a test.

A file belongs to the longest prefix named here; `#include "x/y.h"` with a repository path must land in a
prefix its own row allows. Tests, what they share and benches (*_test.cc, *_fixture.h, *_bench.cc) may include anything.
"""
import pathlib
import re
import sys

ALLOWED = {
    "common/base": [],
    # ABIs of others (CUPTI, NVTX, NCCL's profiler plugin), declared once for the client and for what stands in for them.
    "common/foreign": [],
    "common/log": ["common/base"],
    "common/ring": ["common/base"],
    "common/columns": ["common/base"],
    "common/scenario": ["common/base"],
    "common/rpc": ["lockstep/v1", "common/base"],
    "common/settings": ["common/log", "common/base"],
    "common/metrics": ["common/columns", "common/log", "common/rpc", "common/base"],
    "client": ["common/ring", "common/foreign", "common/base"],
    "sim": ["common/scenario", "common/foreign", "common/base"],
    "daemon": ["common/ring", "common/columns", "common/metrics", "common/settings", "common/log", "common/rpc", "lockstep/v1", "common/base"],
    "aggregator/store": ["common/columns", "common/base"],
    "aggregator/align": ["aggregator/store", "common/base"],
    "aggregator/analysis": ["aggregator/align", "aggregator/store", "common/base"],
    "aggregator/report": ["aggregator/analysis", "aggregator/align", "aggregator/store", "common/base"],
    "aggregator/trace": ["aggregator/analysis", "aggregator/align", "aggregator/store", "common/columns", "common/scenario",
                         "common/base"],
    "aggregator/views": ["aggregator/analysis", "aggregator/align", "aggregator/store", "common/base"],
    "aggregator/tables": ["aggregator/views", "aggregator/trace", "aggregator/report", "aggregator/analysis", "aggregator/align", "aggregator/store",
                          "common/base"],
    "aggregator/html": ["aggregator/tables", "aggregator/report", "aggregator/analysis", "aggregator/align", "aggregator/store", "common/base"],
    "aggregator/ingest": ["aggregator/align", "aggregator/store", "common/columns", "common/metrics", "common/log", "common/rpc", "lockstep/v1",
                          "common/base"],
    "aggregator/site": ["aggregator/ingest", "aggregator/report", "aggregator/store", "common/metrics", "common/log", "common/rpc", "lockstep/v1", "common/base"],
    "aggregator/live": ["aggregator/ingest", "aggregator/trace", "aggregator/report", "aggregator/analysis", "aggregator/align", "aggregator/store",
                        "common/log", "common/rpc", "lockstep/v1", "common/base"],
    # The server: wires ingest, store, analysis and report together; lockstep-aggregator and the CLI run it.
    "aggregator": ["aggregator/site", "aggregator/live", "aggregator/html", "aggregator/ingest", "aggregator/align", "aggregator/store", "aggregator/analysis", "aggregator/report",
                   "aggregator/trace", "common/columns", "common/metrics", "common/settings", "common/log", "common/rpc", "lockstep/v1", "common/base"],
    "cli": ["aggregator", "aggregator/live", "aggregator/ingest", "aggregator/align", "aggregator/store", "aggregator/analysis",
            "aggregator/report", "aggregator/tables", "aggregator/html", "aggregator/views", "aggregator/trace", "common/scenario", "common/columns", "common/metrics", "common/settings", "common/log", "common/rpc", "lockstep/v1",
            "common/base"],
    "tests": None,
    "bench": None,
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
# The client may use these from the standard library: header-only parts.
CLIENT_FORBIDDEN = re.compile(r'^\s*#\s*include\s+<(string|vector|map|unordered_map|thread|mutex|iostream|fstream|memory|'
                              r'condition_variable|future|regex|sstream|deque|list|set)>')
# Both throw where a file or folder goes away while it is read, as a process's do; the rest of the standard streams does not.
THROWS = re.compile(r"istreambuf_iterator|for \([^;]* : [^;]*directory_iterator\(")


def layer_of(path: str):
    best = None
    for layer in ALLOWED:
        if path == layer or path.startswith(layer + "/"):
            if best is None or len(layer) > len(best):
                best = layer
    return best


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    bad = []
    for layer in ALLOWED:
        for file in sorted((root / layer).rglob("*")):
            if file.suffix not in (".h", ".cc", ".c"):
                continue
            rel = file.relative_to(root).as_posix()
            own = layer_of(rel)
            if own != layer:
                continue
            is_test = file.stem.endswith(("_test", "_fixture", "_bench", "_fuzzer"))
            for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
                if own == "client" and not is_test and CLIENT_FORBIDDEN.match(line):
                    bad.append(f"{rel}:{number}: the client links no libstdc++: {line.strip()}")
                if own != "tests" and not is_test and not file.stem.endswith("_fake") and THROWS.search(line):
                    bad.append(f"{rel}:{number}: throws when it goes away meanwhile: take FileText or FolderEntries of common/base/read_files.h: {line.strip()}")
                match = INCLUDE.match(line)
                if not match or ALLOWED[own] is None:
                    continue
                target = layer_of(match.group(1)) or ("lockstep/v1" if match.group(1).startswith("lockstep/v1/") else None)
                if target is None or target == own or target in ALLOWED[own]:
                    continue
                # A test may stand on anything, and nothing stands on a test.
                if is_test:
                    continue
                bad.append(f"{rel}:{number}: {own} may not include {target} ({match.group(1)})")
    for line in bad:
        print(line)
    print(f"check_layers: {len(bad)} broken rules")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
