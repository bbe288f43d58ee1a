"""Compares the output of OTF2's otf2-print for an exported archive with the CSV export of the same capture."""
import csv
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.argv[1]).resolve()
INPUT = ROOT / "tests/golden/timeline/every_statement_v1.timeline"


def run(*command):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Otf2Print(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory(prefix="lk-otf2")
        folder = pathlib.Path(cls.work.name)
        for form in ("otf2", "csv"):
            run(BIN / "lockstep", "export", INPUT, "--format", form, "-o", folder / form)
        cls.csv = folder / "csv"
        cls.anchor = folder / "otf2/traces.otf2"
        cls.events = run("otf2-print", cls.anchor).splitlines()

    @classmethod
    def tearDownClass(cls):
        cls.work.cleanup()

    def rows(self, table):
        with open(self.csv / f"{table}.csv", newline="") as file:
            return list(csv.DictReader(file))

    def count(self, kind):
        return sum(1 for line in self.events if line.startswith(kind + " "))

    def test_every_row_has_enter_and_leave_events(self):
        rows = sum(len(self.rows(table)) for table in ("device_activities", "api_calls", "ranges"))
        self.assertGreater(rows, 10)
        self.assertEqual(self.count("ENTER"), rows)
        self.assertEqual(self.count("LEAVE"), rows)

    def test_collectives_of_known_kind_and_group_have_a_record(self):
        known = [row for row in self.rows("collective_instances")
                 if row["communicator"] and row["op"] not in ("unknown", "send", "receive", "send_receive")]
        self.assertGreater(len(known), 0)
        self.assertEqual(self.count("MPI_COLLECTIVE_BEGIN"), len(known))
        self.assertEqual(self.count("MPI_COLLECTIVE_END"), len(known))

    def test_definitions_name_every_host_and_rank(self):
        definitions = run("otf2-print", "-G", self.anchor)
        for rank in self.rows("ranks"):
            self.assertRegex(definitions, rf'LOCATION_GROUP .*Name: "rank {rank["rank"]}[ "]')
            self.assertRegex(definitions, rf'SYSTEM_TREE_NODE .*Name: "{re.escape(rank["host"])}"')
        self.assertRegex(definitions, r"CLOCK_PROPERTIES .*Ticks per Seconds: 1000000000")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
