"""Exports a live capture and analyses the exports. Kineto traces must give the same report as the records.
nsys SQLite must give the figures that follow from the tables of Nsight Systems."""
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from late_ranks import RANK_ARGS  # noqa: E402
from live_job import LiveJob  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
RANKS = 4
# Members that a folder of Kineto traces lacks (docs/formats/kineto.md). The notes are counts of the reader of
# records.
KINETO_LACKS = {".capture.id", ".capture.job", ".capture.source", ".capture.notes"}
# Figures of a rank that need neither communicators nor the host's clock, which no table of Nsight Systems has
# (docs/formats/nsys_sqlite.md).
NSYS_HAS = ("rank", "host", "device", "pid", "span_ns", "compute_ns", "communication_ns", "memory_ns", "overlap_ns", "exposed_communication_ns",
            "exposed_memory_ns", "idle_ns", "gpu_utilization", "tensor_core_fraction")


def kineto_keeps(difference):
    """Returns whether a difference is unexpected. Kineto stores occupancy in whole percents."""
    place, recorded, read = difference
    if place.endswith(".achieved_occupancy"):
        return abs(recorded - read) > 0.005
    return place not in KINETO_LACKS


def differences(a, b, path=""):
    """Yields the places where two documents differ. Numbers may differ in the twelfth digit, because sums run
    in another order."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys()):
            yield from differences(a.get(key), b.get(key), f"{path}.{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            yield from differences(x, y, f"{path}[{i}]")
    elif isinstance(a, float) or isinstance(b, float):
        if a is None or b is None or not math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12):
            yield path, a, b
    elif a != b:
        yield path, a, b


def by_group(report):
    """Sorts the communicators, whose order depends on the files."""
    report = json.loads(json.dumps(report))
    report["collectives"].sort(key=lambda row: (str(row["group"]), row["op"]))
    report["efficiency"]["groups"].sort(key=lambda row: str(row["group"]))
    return report


def cli(*words):
    done = subprocess.run([str(BIN / "lockstep"), *map(str, words)], text=True, capture_output=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class RoundTrip(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="lk-round-")
        cls.work = pathlib.Path(cls.temporary.name)
        with LiveJob(BIN, cls.work, ranks=RANKS, rank_args=("--forever", "--seed", "7", *RANK_ARGS, "--fault", "slow_gpu", "--fault-rank", "2", "--fault-size", "0.2")) as job:
            job.wait_for_ranks()
            done = job.trace(cls.work / "capture", "--duration", "2s", "--formats", "none")
            assert done.returncode == 0, done.stderr + done.stdout + job.rank_output()
        cls.report = json.loads(cli("report", cls.work / "capture", "--format", "json"))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def again(self, form, name):
        output = self.work / name
        cli("export", self.work / "capture", "--format", form, "-o", output)
        return json.loads(cli("analyze", output, "--format", "json"))

    def test_the_report_is_not_empty(self):
        self.assertEqual(self.report["stragglers"][0]["ranks"], [2])
        self.assertGreater(len(self.report["collectives"]), 2)
        self.assertGreater(len(self.report["steps"]), 3)

    def test_nsys_sqlite_reads_back(self):
        read = self.again("nsys-sqlite", "job.sqlite")

        def contents(report):
            return {"ranks": [{key: rank[key] for key in NSYS_HAS} for rank in report["ranks"]],
                    "steps": [(step["step"], step["duration_ns"]) for step in report["steps"]],
                    "breakdown": report["step_breakdown"],
                    "straggler": (report["stragglers"][0]["ranks"], report["stragglers"][0]["cause"])}
        self.assertEqual(list(differences(contents(self.report), contents(read))), [])

    def test_kineto_traces_read_back(self):
        found = differences(by_group(self.report), by_group(self.again("kineto", "traces")))
        self.assertEqual([d for d in found if kineto_keeps(d)], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
