"""A live capture, exported as Kineto traces or nsys SQLite and analysed from there, gets the report that its records get."""
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from live_job import LiveJob  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
RANKS = 4
# What a folder of Kineto traces does not say (docs/formats/kineto.md).
# Notes: what the reader of records counted in them.
KINETO_LACKS = {".capture.id", ".capture.job", ".capture.source", ".capture.notes"}


def kineto_keeps(difference):
    """Of occupancy Kineto has whole percents."""
    place, recorded, read = difference
    if place.endswith(".achieved_occupancy"):
        return abs(recorded - read) > 0.005
    return place not in KINETO_LACKS


def differences(a, b, path=""):
    """Places where two documents differ; numbers may in their twelfth digit, since sums run in another order."""
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
    """Communicators come in the order in which the files name them."""
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
        cls.room = tempfile.TemporaryDirectory(prefix="lk-round-")
        cls.work = pathlib.Path(cls.room.name)
        with LiveJob(BIN, cls.work, ranks=RANKS, rank_args=("--forever", "--seed", "7", "--fault", "slow_gpu", "--fault-rank", "2", "--fault-size", "0.2")) as job:
            job.wait_for_ranks()
            done = job.trace(cls.work / "capture", "--duration", "1s", "--formats", "none")
            assert done.returncode == 0, done.stderr + done.stdout + job.rank_output()
        cls.report = json.loads(cli("report", cls.work / "capture", "--format", "json"))

    @classmethod
    def tearDownClass(cls):
        cls.room.cleanup()

    def again(self, form, name):
        output = self.work / name
        cli("export", self.work / "capture", "--format", form, "-o", output)
        return json.loads(cli("analyze", output, "--format", "json"))

    def test_the_report_has_something_to_lose(self):
        self.assertEqual(self.report["stragglers"][0]["ranks"], [2])
        self.assertGreater(len(self.report["collectives"]), 2)
        self.assertGreater(len(self.report["steps"]), 3)

    def test_as_nsys_sqlite(self):
        self.assertEqual(list(differences(self.report, self.again("nsys-sqlite", "job.sqlite"))), [])

    def test_as_kineto_traces(self):
        found = differences(by_group(self.report), by_group(self.again("kineto", "traces")))
        self.assertEqual([d for d in found if kineto_keeps(d)], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
