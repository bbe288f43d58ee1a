#!/usr/bin/env python3
"""Exports jobs for Perfetto and reads the files with Perfetto's own importer, ../shared/tools/trace_processor.xz: counts,
lengths, names and arguments must equal those of the CSV tables, and the importer must report no error. Kineto files are read
too: the importer must keep all of their rows.

usage: perfetto_consumer_test.py LOCKSTEP"""
import collections
import csv
import gzip
import json
import lzma
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
IMPORTER = SHARED / "tools" / "trace_processor.xz"
RECORDINGS = ["resnet50_ddp_2rank", "param_dlrm_8rank", "nsys_h100_2gpu", "independent_jobs/i_slow_gpu_1f1b"]
# One file of all ranks is on the job's clock, whose rate may differ from a host's by so much.
CLOCK_RATES = 1e-4
# Columns of one line: category, name, number, summed length, number with a correlation.
QUERY = """select 'row', category, name, count(*), sum(dur), sum(extract_arg(arg_set_id, 'debug.correlation') is not null)
  from slice group by category, name;
select 'error', name, severity, value from stats
  where value > 0 and (name like '%error%' or name like '%overlapping%' or name like '%dropped%' or name like '%invalid%');
select 'flow', count(*) from flow;
select 'arrow', s.name, count(*) from flow f join slice s on s.id = f.slice_out where s.name like 'nccl:%' group by s.name;
"""


def ask(importer, trace, work):
    """Returns the answers of trace_processor by their first column."""
    queries = work / "queries.sql"
    queries.write_text(QUERY)
    done = subprocess.run([importer, trace, queries], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"trace_processor {trace} ended with {done.returncode}: {done.stderr[-500:]}")
    answers = collections.defaultdict(list)
    for line in done.stdout.splitlines():
        # A kernel's name may contain the separator.
        first, *rest = line.split("|")
        if first == "row":
            answers[first].append((rest[0], "|".join(rest[1:-3]), *rest[-3:]))
        elif first in ("error", "flow", "arrow"):
            answers[first].append(rest)
    return answers


def table(folder, name):
    with open(folder / f"{name}.csv", newline="") as file:
        yield from csv.DictReader(file)


def expected(folder):
    """Returns (category, name) -> [number, length in ns, number with a correlation], from the CSV tables."""
    rows = collections.defaultdict(lambda: [0, 0, 0])

    def add(category, name, ns, correlated):
        row = rows[category, name]
        row[0] += 1
        row[1] += int(ns)
        row[2] += correlated

    for r in table(folder, "device_activities"):
        communication = r["kind"] == "kernel" and r["communication"] == "true"
        add("communication" if communication else r["kind"], r["name"] or "kernel", r["duration_ns"], 1)
    for r in table(folder, "api_calls"):
        add(r["api"], r["name"] or "call", r["duration_ns"], 1)
    for r in table(folder, "ranges"):
        add("range", r["name"], r["duration_ns"], 0)
    return rows


def compare(label, answers, wanted):
    problems = [f"Perfetto reports {' '.join(error)}" for error in answers["error"]]
    found = {(category, name): (int(count), int(ns), int(correlated)) for category, name, count, ns, correlated in answers["row"]
             if category not in ("sync", "finding")}
    for key in sorted(set(found) | set(wanted)):
        have, want = found.get(key, (0, 0, 0)), tuple(wanted.get(key, (0, 0, 0)))
        # Ranges of a thread that overlap without nesting are cut.
        if key[0] == "range":
            have, want = have[:1], want[:1]
        near = abs(have[1] - want[1]) <= CLOCK_RATES * want[1] if len(have) > 1 else True
        if (have[0], *have[2:]) != (want[0], *want[2:]) or not near:
            problems.append(f"{key}: number, length, correlations {have}, expected {want}")
    if problems:
        print(f"{label}: {len(problems)} differences", *problems[:5], sep="\n  ")
    return not problems


def check_kineto(importer, trace, work):
    """Returns whether the importer keeps every row and instant of a Kineto file."""
    text = gzip.decompress(trace.read_bytes())
    plain = work / "plain.json"
    plain.write_bytes(text)
    answers = ask(importer, plain, work)
    rows = sum(event["ph"] in ("X", "i") for event in json.loads(text)["traceEvents"])
    kept = sum(int(row[2]) for row in answers["row"])
    print(f"generated job, {trace.name}: {kept} slices of {rows} rows, {len(answers['error'])} errors {answers['error']}, arrows from "
          f"annotations: {answers['arrow']}")
    # The arrow to a kernel begins at the call that launched it.
    return kept == rows and not answers["error"] and not answers["arrow"]


def main():
    lockstep = sys.argv[1]
    if not IMPORTER.exists():
        print(f"not tested: {IMPORTER} is not there")
        return
    good = True
    with tempfile.TemporaryDirectory(prefix="lockstep-perfetto-") as temporary:
        work = pathlib.Path(temporary)
        importer = work / "trace_processor"
        importer.write_bytes(lzma.decompress(IMPORTER.read_bytes()))
        importer.chmod(0o755)
        for number, recording in enumerate(RECORDINGS):
            def export(form, name):
                subprocess.run([lockstep, "export", "--format", form, "-o", work / name, SHARED / "traces" / recording], check=True,
                               capture_output=True, timeout=120)
                return work / name

            wanted = expected(export("csv", f"{number}-tables"))
            for name in (f"{number}.pftrace", f"{number}.tar"):
                answers = ask(importer, export("perfetto", name), work)
                good &= compare(f"{recording}, {name.split('.')[1]}", answers, wanted)
                total = sum(int(row[2]) for row in answers["row"])
                print(f"{recording}, {name.split('.')[1]}: {total} slices, {answers['flow'][0][0]} flows, {len(answers['error'])} errors")
        job = work / "job.timeline"
        subprocess.run([sys.executable, ROOT / "tests" / "scenario" / "generate.py", "-o", job, "--topology", "hybrid", "--ranks", "8", "--steps",
                        "8", "--seed", "3"], check=True, capture_output=True)
        subprocess.run([lockstep, "export", "--format", "kineto", "-o", work / "kineto", job], check=True, capture_output=True)
        good &= check_kineto(importer, min((work / "kineto").glob("*.json.gz")), work)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
