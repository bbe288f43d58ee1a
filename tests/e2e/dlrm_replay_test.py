"""Real input through the whole path: an 8-rank DLRM step, recorded on 8 V100s, replayed by 8 simulated ranks in a loop, captured
mid-job, reported and exported; and the same traces imported, on their own clocks and on clocks set off.

The figures per rank and turn are computed here from the exported traces (tests/support/device_times.py, which shares no code with
the product), held against the independent reference and against the report. The traces lie outside the repository."""
import copy
import gzip
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from device_times import RankTrace, figures, latest_start_waits  # noqa: E402
from live_job import LiveJob, report_of  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
TRACES = ROOT.parent / "shared" / "traces" / "param_dlrm_8rank"
EXACT = ROOT.parent / "shared" / "reference" / "exact.json"
RANKS = range(8)
MS, US = 1_000_000, 1_000
# What is published of this run: rank 7 makes the others wait 35.6 ms per step, rank 5 6.3 ms, and rank 7 came 7.5 ms late.
CAUSED_MS = {7: 35.6, 5: 6.3}
LATE_MS = 7.5
# Reference name -> ours.
PARTITION = {"span_us": "span_ns", "idle_us": "idle_ns", "compute_union_us": "compute_ns", "comm_union_us": "communication_ns",
             "mem_union_us": "memory_ns", "overlap_us": "overlap_ns"}
COUNTS = {"n_kernels": "kernels", "n_comm": "communication_kernels", "n_memops": "copies"}


def reference():
    """Per rank: the exact figures in ns, counts, and the waiting by latest start."""
    recorded = json.loads(EXACT.read_text())["sets"]["param_dlrm_8rank"]
    waits = {row["rank"]: row["sync_us"] for row in recorded["per_rank_latest_start_method"]}
    return {row["rank"]: {**{ours: round(row[theirs] * US) for theirs, ours in PARTITION.items()},
                          **{ours: row[theirs] for theirs, ours in COUNTS.items()},
                          "wait_ns": round(waits[row["rank"]] * US)} for row in recorded["ranks"]}


def show(title, rows):
    """Per rank, in µs, beside the reference."""
    columns = ("compute_ns", "memory_ns", "span_ns", "communication_ns", "wait_ns")
    print(f"\n{title} (us, found / exact)")
    for rank, (found, exact) in enumerate(rows):
        print(f"  rank {rank}: " + "  ".join(f"{c[:-3]} {found[c] / US:g} / {exact[c] / US:g}" for c in columns), flush=True)


class DlrmTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-dlrm-")
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        self.exact = reference()

    def cli(self, *args):
        done = subprocess.run([str(BIN / "lockstep"), *map(str, args)], text=True, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def assert_blames_rank_7(self, report):
        """The ranks that the others wait for, the lateness, and a cause that nobody can know."""
        caused = {row["rank"]: row["caused_wait_ns"] / report["capture"]["steps"] / MS for row in report["ranks"]}
        self.assertEqual(sorted(caused, key=caused.get, reverse=True)[:2], [7, 5], caused)
        for rank, expected in CAUSED_MS.items():
            self.assertAlmostEqual(caused[rank], expected, delta=0.1)
        late = {row["rank"]: row["late_from_before_ns"] / MS for row in report["ranks"]}
        self.assertEqual(max(late, key=late.get), 7, late)
        self.assertAlmostEqual(late[7], LATE_MS, delta=0.05)
        first = report["stragglers"][0]
        self.assertEqual((first["ranks"], first["cause"]), ([7], "unknown"), first)
        self.assertAlmostEqual(first["caused_wait_ns_per_step"] / MS, CAUSED_MS[7], delta=0.1)
        self.assertRegex("; ".join(first["evidence"]), r"came 7\.5\d? ms late from before the window")
        self.assertIn("others waited 35.5 ms per step for it", "; ".join(first["evidence"]))


class Live(DlrmTest):
    def capture(self):
        scenario = self.work / "dlrm.scenario"
        self.cli("export", TRACES, "--format", "scenario", "-o", scenario)
        # Every turn as recorded, however late: none waits for a busy machine.
        with LiveJob(BIN, self.work / "job", rank_args=("--scenario", scenario, "--forever", "--hold-when-late", "1000s")) as job:
            job.wait_for_ranks()
            return [self.trace(job, name, duration) for name, duration in (("capture", "2s"), ("short", "55ms"))]

    def trace(self, job, name, duration):
        """The capture's report. Where something else keeps the machine so busy that ranks fall behind the wall clock, their records
        come after the capture has closed and count as lost: then again, when they had time to catch up."""
        for attempt in range(8):
            time.sleep(attempt)
            done = job.trace(self.work / name, "--duration", duration, "--force")
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout + job.rank_output())
            report = report_of(self.work / name)
            if not report["capture"]["losses"]:
                return report
            self.assertIn("behind the wall clock", job.rank_output(), report["capture"]["losses"])
            print(f"\n{name}: ranks fell behind, captured again", flush=True)
        self.fail(f"lost in each of eight captures: {report['capture']['losses']}")

    def recorded_turn(self):
        """Length of a turn, and where in it each rank's step begins: from the earliest stamp of any rank to the last."""
        sources = {trace.rank: trace for trace in map(RankTrace, sorted(TRACES.glob("*.json.gz")))}
        stamps = [(row[0], row[1]) for trace in sources.values()
                  for row in [*trace.rows, *trace.calls, *trace.steps.values()]]
        origin = min(start for start, _ in stamps)
        begins = {rank: next(iter(trace.steps.values()))[0] - origin for rank, trace in sources.items()}
        return max(end for _, end in stamps) - origin, begins

    def turns(self, traces):
        """Per turn that lies wholly inside every rank's window: number -> rows per rank."""
        period, begins = self.recorded_turn()
        manifest = json.loads((self.work / "capture" / "records" / "manifest.json").read_text())
        window = {p["rank"]: (p["t0_host_ns"], p["t1_host_ns"]) for p in manifest["processes"]}
        origins = {}
        for rank, trace in traces.items():
            for number, (start, end) in trace.steps.items():
                # What the window cuts begins or ends with it.
                if window[rank][0] < start and end < window[rank][1]:
                    origins.setdefault(number, {})[rank] = start - begins[rank]
        turns = {}
        for number, of_rank in origins.items():
            # Every rank starts its turn at the same moment, however late its own step begins in it.
            self.assertEqual(len(set(of_rank.values())), 1, f"turn {number}: {of_rank}")
            origin = next(iter(of_rank.values()))
            if all(window[r][0] <= origin and origin + period <= window[r][1] for r in RANKS):
                turns[number] = {r: [row for row in traces[r].rows if origin <= row[0] < origin + period] for r in RANKS}
        return turns

    def test_a_recorded_job_replayed_and_captured_mid_run_gives_its_figures_back(self):
        report, short = self.capture()
        folder = self.work / "capture"
        text = self.cli("report", folder)
        self.assertEqual(text, (folder / "report.txt").read_text())
        self.assertIn("rank 7", text.splitlines()[0])
        self.cli("export", folder, "--format", "kineto", "-o", self.work / "exported")
        traces = {trace.rank: trace for trace in map(RankTrace, sorted((self.work / "exported").glob("*.json*")))}
        self.assertEqual(sorted(traces), list(RANKS))
        self.assert_same_as_recorded(report, self.turns(traces))
        self.assert_report_adds_up(report, traces)
        self.assert_blames_rank_7(report)
        self.assert_few_steps_say_the_same(short)

    def assert_same_as_recorded(self, report, turns):
        self.assertGreaterEqual(len(turns), 90, "a window of 2 s holds 95 turns")
        steps = {step["step"]: {row["rank"]: row for row in step["ranks"]} for step in report["steps"]}
        found = {r: [] for r in RANKS}
        for number, rows in sorted(turns.items()):
            waits, caused = latest_start_waits([[(s, e) for s, e, kind in rows[r] if kind == "communication"] for r in RANKS])
            for rank, expected in CAUSED_MS.items():
                self.assertAlmostEqual(caused[rank] / MS, expected, delta=0.1)
            for r in RANKS:
                got, exact = {**figures(rows[r]), "wait_ns": waits[r]}, self.exact[r]
                where = f"rank {r}, turn {number}"
                for name in ("compute_ns", "memory_ns", "kernels", "communication_kernels", "copies"):
                    self.assertEqual(got[name], exact[name], f"{where}: {name}")
                for name in ("span_ns", "communication_ns", "wait_ns"):
                    self.assertAlmostEqual(got[name], exact[name], delta=0.1 * MS, msg=f"{where}: {name}")
                found[r].append(got)
                if number in steps:
                    ours = steps[number][r]
                    self.assertEqual(ours["overlap_ns"], got["overlap_ns"], where)
                    self.assertAlmostEqual(ours["wait_ns"], exact["wait_ns"], delta=0.1 * MS, msg=where)
        # The first turn has nobody's records from before it, and may be left out; all others are steps of the report.
        self.assertGreaterEqual(len(steps.keys() & turns.keys()), len(turns) - 1)
        print(f"\n{len(turns)} whole turns of each rank")
        show("live, worst turn", [({name: max((turn[name] for turn in found[r]), key=lambda v: abs(v - self.exact[r][name]))
                                    for name in found[r][0]}, self.exact[r]) for r in RANKS])

    def assert_report_adds_up(self, report, traces):
        """The report's figures of the whole window are those of the exported rows, to the nanosecond."""
        for row in report["ranks"]:
            own = figures(traces[row["rank"]].rows)
            for name in PARTITION.values():
                self.assertEqual(row[name], own[name], f"rank {row['rank']}: {name}")
            waits = [next(r for r in step["ranks"] if r["rank"] == row["rank"])["wait_ns"] for step in report["steps"]]
            self.assertAlmostEqual(statistics.mean(waits), self.exact[row["rank"]]["wait_ns"], delta=0.1 * MS)

    def assert_few_steps_say_the_same(self, report):
        """A window of two turns opens in the midst of one: what it cuts is not taken for lateness, and nothing is sure."""
        self.assertIn(report["capture"]["steps"], (1, 2))
        self.assert_blames_rank_7(report)
        self.assertNotIn("sure", [s["verdict"] for s in report["stragglers"]])


class Imported(DlrmTest):
    def analyze(self, folder):
        report = json.loads(self.cli("analyze", folder, "--format", "json", "--exit-code"))
        self.assertEqual(report["capture"]["steps"], 1)
        self.assertEqual(report["capture"]["matching"]["matched_fraction"], 1)
        self.assert_blames_rank_7(report)
        self.assertNotIn("sure", [s["verdict"] for s in report["stragglers"]])
        return report

    def test_the_import_says_the_same(self):
        report = self.analyze(TRACES)
        found = []
        for row in report["ranks"]:
            exact = self.exact[row["rank"]]
            for name in PARTITION.values():
                self.assertEqual(row[name], exact[name], f"rank {row['rank']}: {name}")
            for name in ("wait_ns", "wait_by_clock_ns"):
                self.assertAlmostEqual(row[name], exact["wait_ns"], delta=20 * US, msg=f"rank {row['rank']}: {name}")
            found.append(({**row, "wait_ns": row["wait_by_clock_ns"]}, exact))
        show("imported, wait by aligned starts", found)
        text = " ".join(self.cli("analyze", TRACES).split())
        self.assertIn("So far the others wait for rank 7 (35.5 ms of their waiting per step)", text)
        self.assertIn("rank 7 came 7.51 ms late from before the window, cause unknown", text)

    def set_off(self, documents, seed):
        """Writes the traces with every rank's clock off by up to 10 ms and drifting by up to 50 ppm: seeds with an even number as
        nanoseconds, the others rounded to the microseconds that older profilers write."""
        draw = random.Random(seed)
        folder = self.work / f"seed{seed}"
        folder.mkdir()
        for name, document in documents.items():
            document = copy.deepcopy(document)
            offset, drift = draw.uniform(-10 * MS, 10 * MS), draw.uniform(-50e-6, 50e-6)
            base = min(e["ts"] for e in document["traceEvents"] if "ts" in e)

            def off(us):
                ns = us * US + round(offset + drift * (us - base) * US)
                return ns if seed % 2 == 0 else round(ns, -3)

            for event in document["traceEvents"]:
                if "ts" not in event:
                    continue
                start = off(event["ts"])
                if "dur" in event:
                    event["dur"] = number(off(event["ts"] + event["dur"]) - start)
                event["ts"] = number(start)
            text = json.dumps(document).replace('"<', "").replace('>"', "")
            with gzip.open(folder / name, "wt", compresslevel=1) as file:
                file.write(text)
        return folder

    def test_clocks_off_by_10_ms_and_50_ppm_change_nothing(self):
        documents = {path.name: json.loads(gzip.open(path, "rt").read()) for path in sorted(TRACES.glob("*.json.gz"))}
        before = {row["rank"]: row for row in self.analyze(TRACES)["ranks"]}
        worst = {"wait_ns": 0, "wait_by_clock_ns": 0, "late_from_before_ns": 0}
        for seed in range(6):
            report = self.analyze(self.set_off(documents, seed))
            for row in report["ranks"]:
                for name in ("wait_ns", "wait_by_clock_ns"):
                    self.assertAlmostEqual(row[name], before[row["rank"]][name], delta=20 * US,
                                           msg=f"seed {seed}, rank {row['rank']}: {name}")
                for name in worst:
                    worst[name] = max(worst[name], abs(row[name] - before[row["rank"]][name]))
        print("\nclocks set off, largest change of any rank (us): ", {k: v / US for k, v in worst.items()}, flush=True)


def number(ns):
    """Decimal microseconds, written as a number once the marks are gone: a double cannot hold them."""
    return f"<{ns // US}.{ns % US:03d}>" if ns % US else f"<{ns // US}>"


if __name__ == "__main__":
    if not TRACES.is_dir() or not EXACT.is_file():
        print(f"not tested: {TRACES} and {EXACT} are not there")
        sys.exit(0)
    unittest.main(verbosity=2)
