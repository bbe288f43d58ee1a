"""Jobs over several nodes by real launchers, Open MPI's mpiexec and MPICH's: daemons on demand and the system's, an aggregator that is
there and one that the job brings along. docs/mpiexec.md is followed by its own commands."""
import os
import pathlib
import re
import shutil
import sys
import time
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "support"))
from live_job import report_of  # noqa: E402
from nodes import Nodes, enter, ranks_of, wait_until  # noqa: E402
from slurm_cluster import run  # noqa: E402
from verdict import CAUSES  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
PAGE = (REPOSITORY / "docs" / "mpiexec.md").read_text()
DENIED = 5
SLOW_RANK = 5
# What stands for `python3 train.py` of the page.
TRAIN = f"""\
import os, sys
os.execv("/opt/lockstep/bin/lockstep-sim-rank", "lockstep-sim-rank --forever --seed 7 --ranks-per-host 4 --fault slow_gpu --fault-rank {SLOW_RANK} --fault-size 0.2".split() + sys.argv[1:])
"""
# A rank that is alone in its own MPI, whatever its launcher says: the simulated rank's is Open MPI's.
ALONE = """\
import os
for name in [name for name in os.environ if name.startswith(("OMPI_", "PMIX_"))]:
    del os.environ[name]
os.execv("/opt/lockstep/bin/lockstep-sim-rank", "lockstep-sim-rank --forever --dp 1 --tp 1 --pp 1".split())
"""


def block(name):
    """The commands of docs/mpiexec.md behind <!-- run: name -->."""
    found = re.search(rf"<!-- run: {name} -->\n```sh\n(.*?)```", PAGE, re.S)
    if not found:
        raise AssertionError(f"docs/mpiexec.md has no block {name}")
    return found.group(1)


class Mpiexec(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.nodes = Nodes(BIN)
        cls.nodes.start()
        cls.head = cls.nodes["head"]
        for user in ("alice", "bob"):
            home = pathlib.Path("/home", user)
            (home / "train.py").write_text(TRAIN)
            (home / "alone.py").write_text(ALONE)
            (home / "hosts").write_text("a slots=4\nb slots=4\n")

    def setUp(self):
        self.said = pathlib.Path(f"/mnt/said-{self.id().rsplit('.', 1)[-1]}")
        self.jobs = []

    def tearDown(self):
        for job in self.jobs:
            job.kill()
            job.wait(10)
        for node in self.nodes.nodes.values():
            run(*node.inside("sh", "-c", "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p -gt 1 ] && [ $p != $$ ] && kill -9 $p; done; rm -rf /tmp/*; true"),
                check=False)

    def start(self, script, user="alice", node=None):
        job = (node or self.head).start(user, script, self.said)
        self.jobs.append(job)
        return job

    def logs(self):
        files = [self.said, *pathlib.Path("/home").glob("*/.local/state/lockstep/launchers/*.log"), *pathlib.Path("/mnt").glob("*.log")]
        text = "".join(f"\n--- {path}\n{path.read_text(errors='replace')[-3000:]}" for path in files if path.exists())
        for name in ("a", "b"):
            text += f"\n--- {name}\n" + run(*self.nodes[name].inside("sh", "-c", "ls -lR /tmp | head -30; cat /tmp/lockstep-*/lockstepd.log | tail -20"), check=False).stdout
        return text

    def launcher_said(self):
        """The two options that `lockstep run --with-aggregator` prints."""
        wait_until(lambda: "trace with: lockstep trace " in self.said.read_text(), "the aggregator", self.logs)
        return re.search(r"trace with: lockstep trace (--aggregator \S+ --token-file \S+)", self.said.read_text()).group(1)

    def ranks(self, options, user="alice", node=None):
        return ranks_of((node or self.head).sh(user, f"lockstep status --format json {options}", check=False).stdout)

    def wait_for_ranks(self, count, options, **kwargs):
        wait_until(lambda: len(self.ranks(options, **kwargs)) >= count, f"{count} ranks", self.logs)
        return self.ranks(options, **kwargs)

    def assert_eight(self, ranks):
        self.assertEqual(sorted(rank["rank"] for rank in ranks), list(range(8)))
        self.assertEqual({(rank["uid"], rank["world_size"], rank["rank_source"], rank["job_source"]) for rank in ranks}, {(12001, 8, "OMPI", "PMIx")})
        self.assertEqual(len({rank["job"] for rank in ranks}), 1)

    def assert_named(self, folder):
        report = report_of(folder)
        self.assertIn(SLOW_RANK, report["stragglers"][0]["ranks"])
        self.assertIn(report["stragglers"][0]["cause"], CAUSES["slow_gpu"])
        self.assertEqual((report["capture"]["world_size"], report["capture"]["missing_ranks"]), (8, []))
        self.assertEqual({rank["rank"]: rank["host"] for rank in report["ranks"]}, {rank: "a" if rank < 4 else "b" for rank in range(8)})

    def assert_all_ends(self, within):
        begun = time.monotonic()
        wait_until(lambda: not self.nodes.leftovers(), "everything to end", lambda: str(self.nodes.leftovers()) + self.logs(), within)
        print(f"{self.id()}: all was gone {time.monotonic() - begun:.1f} s after the job", file=sys.stderr)

    def test_an_aggregator_that_the_job_brings_along(self):
        job = self.start(block("with-aggregator"))
        options = self.launcher_said()
        self.assert_eight(self.wait_for_ranks(8, options))
        denied = self.head.sh("bob", f"lockstep status {options}", check=False)
        self.assertEqual(denied.returncode, DENIED, denied.stdout + denied.stderr)
        self.head.sh("alice", f"lockstep trace {options} --duration 2s -o capture")
        self.assert_named("/home/alice/capture")
        job.terminate()
        job.wait(20)
        self.assert_all_ends(25)


if __name__ == "__main__":
    enter()
    del sys.argv[1:2]
    unittest.main(verbosity=2)
