"""Lets flamegraph.pl draw the output of `lockstep flame`, and compares the picture with the tables of the capture."""
import csv
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.argv.pop(1)).resolve()
DRAW = sys.argv.pop(1)
INPUT = ROOT / "tests/golden/timeline/every_statement_v1.timeline"
TITLE = re.compile(r"<title>(.*) \(([\d,]+) ns, [\d.]+%(?:; ([+-]?[\d.]+)%)?\)</title>")


def run(*command, text=None):
    done = subprocess.run([str(word) for word in command], input=text, text=True, capture_output=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def picture(folded):
    """Returns the nanoseconds of each frame that flamegraph.pl draws."""
    drawn = {}
    # A frame that is narrower than the limit is not drawn.
    for name, time, _ in TITLE.findall(run("perl", DRAW, "--countname", "ns", "--minwidth", "0", text=folded)):
        drawn[name.replace("&lt;", "<").replace("&gt;", ">")] = drawn.get(name, 0) + int(time.replace(",", ""))
    return drawn


class Flame(unittest.TestCase):
    def flame(self, *args):
        return run(BIN / "lockstep", "flame", INPUT, *args)

    def rows(self, table):
        with tempfile.TemporaryDirectory(prefix="lk-flame") as folder:
            run(BIN / "lockstep", "export", INPUT, "--format", "csv", "-o", pathlib.Path(folder) / "csv")
            with open(pathlib.Path(folder) / f"csv/{table}.csv", newline="") as file:
                return list(csv.DictReader(file))

    def test_the_picture_of_the_device_has_the_time_of_all_activities(self):
        drawn = picture(self.flame())
        rows = self.rows("device_activities")
        self.assertEqual(drawn["all"], sum(int(row["duration_ns"]) for row in rows))
        self.assertGreater(drawn["all"], 0)
        for name in {row["name"] for row in rows} - {""}:
            self.assertIn(name, drawn)

    def test_frames_contain_each_other(self):
        drawn = picture(self.flame("--by", "host"))
        self.assertGreater(drawn["ProfilerStep"], drawn["forward"])
        self.assertEqual(drawn["all"], drawn["ProfilerStep"])

    def test_a_rank_is_a_frame(self):
        drawn = picture(self.flame("--per-rank"))
        by_rank = {}
        for row in self.rows("device_activities"):
            name = f"rank {row['rank']}"
            by_rank[name] = by_rank.get(name, 0) + int(row["duration_ns"])
        self.assertEqual({name: time for name, time in drawn.items() if name.startswith("rank ")}, by_rank)

    def test_a_capture_does_not_differ_from_itself(self):
        changes = TITLE.findall(run("perl", DRAW, "--countname", "ns", "--minwidth", "0", text=self.flame("--diff", INPUT)))
        self.assertEqual({change for name, _, change in changes if name != "all"}, {"0.00"})

    def test_a_capture_without_python_functions_says_how_to_record_them(self):
        done = subprocess.run([BIN / "lockstep", "flame", INPUT, "--by", "python"], text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("with_stack=True", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
