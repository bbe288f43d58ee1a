"""Runs jobs over several nodes with the real launchers Open MPI mpiexec and MPICH mpiexec. They use daemons
on demand and the system's daemons, a standing aggregator and a job's own. The commands are those of
docs/mpiexec.md."""
import pathlib
import re
import sys
import time
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "support"))
from debs import Debs  # noqa: E402
from live_job import report_of  # noqa: E402
from nodes import Nodes, enter, ranks_of  # noqa: E402
from waiting import wait_until  # noqa: E402
from slurm_cluster import run  # noqa: E402
from verdict import CAUSES  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
MPICH = BIN.parent / "debs" / "mpich"
PAGE = (REPOSITORY / "docs" / "mpiexec.md").read_text()
DENIED = 5
SLOW_RANK = 5
# Stands for the page's `python3 train.py`.
TRAIN = f"""\
import os
os.execv("/opt/lockstep/bin/lockstep-sim-rank", "lockstep-sim-rank --forever --seed 7 --time-scale 4 --microbatches 2 --ranks-per-host 4 "
         "--fault slow_gpu --fault-rank {SLOW_RANK} --fault-size 0.2".split())
"""
PAIR = """\
import os
os.execv("/opt/lockstep/bin/lockstep-sim-rank", "lockstep-sim-rank --forever --time-scale 4 --microbatches 2 --dp 2 --tp 1 --pp 1".split())
"""
# A rank that runs alone in its own MPI, under any launcher. The simulated rank links Open MPI.
ALONE = """\
import os
for name in [name for name in os.environ if name.startswith(("OMPI_", "PMIX_"))]:
    del os.environ[name]
os.execv("/opt/lockstep/bin/lockstep-sim-rank", "lockstep-sim-rank --forever --time-scale 4 --microbatches 2 --dp 1 --tp 1 --pp 1".split())
"""


def block(name):
    """Returns the commands of docs/mpiexec.md after <!-- run: name -->."""
    found = re.search(rf"<!-- run: {name} -->\n```sh\n(.*?)```", PAGE, re.S)
    if not found:
        raise AssertionError(f"docs/mpiexec.md has no block {name}")
    return found.group(1)


class Mpiexec(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.nodes = Nodes(BIN)
        cls.nodes.give(MPICH, "/opt/mpich")
        cls.nodes.start()
        for program in ("mpiexec.hydra", "hydra_pmi_proxy"):
            pathlib.Path("/opt/bin", program).symlink_to(f"/opt/mpich/usr/bin/{program}")
        cls.head = cls.nodes["head"]
        for user in ("alice", "bob"):
            home = pathlib.Path("/home", user)
            (home / "train.py").write_text(TRAIN)
            (home / "alone.py").write_text(ALONE)
            (home / "pair.py").write_text(PAIR)
            (home / "hosts").write_text("a slots=4\nb slots=4\n")
            (home / "machines").write_text("a:4\nb:4\n")

    def setUp(self):
        self.output = pathlib.Path(f"/mnt/output-{self.id().rsplit('.', 1)[-1]}")
        self.jobs = []

    def tearDown(self):
        self.nodes.end(self.jobs)

    def start(self, script, user="alice", node=None):
        job = (node or self.head).start(user, script, self.output)
        self.jobs.append(job)
        return job

    def logs(self):
        files = [self.output, *pathlib.Path("/home").glob("*/.local/state/lockstep/launchers/*.log"), *pathlib.Path("/mnt").glob("*.log")]
        text = "".join(f"\n--- {path}\n{path.read_text(errors='replace')[-3000:]}" for path in files if path.exists())
        for name in ("a", "b"):
            text += f"\n--- {name}\n" + self.nodes[name].sh("root", "tail -n 20 /tmp/lockstep-*/lockstepd.log", check=False).stdout
        return text

    def aggregator_options(self):
        """Returns the two options that `lockstep run --with-aggregator` prints."""
        wait_until(lambda: "trace with: lockstep trace " in self.output.read_text(), "the aggregator", self.logs)
        return re.search(r"trace with: lockstep trace (--aggregator \S+ --token-file \S+)", self.output.read_text()).group(1)

    def ranks(self, options, user="alice", node=None):
        return ranks_of((node or self.head).sh(user, f"lockstep status --format json {options}", check=False).stdout)

    def wait_for_ranks(self, count, options, **kwargs):
        wait_until(lambda: len(self.ranks(options, **kwargs)) >= count, f"{count} ranks", self.logs)
        return self.ranks(options, **kwargs)

    def assert_eight(self, ranks):
        self.assertEqual(sorted(rank["rank"] for rank in ranks), list(range(8)))
        self.assertEqual({(rank["uid"], rank["world_size"], rank["rank_source"], rank["job_source"]) for rank in ranks},
                         {(12001, 8, "OMPI", "PMIx")})
        self.assertEqual(len({rank["job"] for rank in ranks}), 1)

    def assert_named(self, folder):
        report = report_of(folder)
        self.assertIn(SLOW_RANK, report["stragglers"][0]["ranks"])
        self.assertIn(report["stragglers"][0]["cause"], CAUSES["slow_gpu"])
        self.assertEqual((report["capture"]["world_size"], report["capture"]["missing_ranks"]), (8, []))
        self.assertEqual({rank["rank"]: rank["host"] for rank in report["ranks"]}, {rank: "a" if rank < 4 else "b" for rank in range(8)})

    def assert_all_ends(self, within=25):
        begun = time.monotonic()
        wait_until(lambda: not self.nodes.leftovers(), "everything to end", lambda: str(self.nodes.leftovers()) + self.logs(), within)
        print(f"{self.id()}: all was gone {time.monotonic() - begun:.1f} s after the job", file=sys.stderr)

    def end(self, launcher="mpiexec", node=None):
        """Ends the launcher as ^C does."""
        (node or self.head).sh("alice", f"kill $(pgrep -u alice -x {launcher})", check=False)
        for job in self.jobs:
            job.wait(60)

    def run_and_capture(self, script, **start):
        """Captures a job with its own aggregator. Returns the options that the launcher printed."""
        self.start(script, **start)
        options = self.aggregator_options()
        self.assert_eight(self.wait_for_ranks(8, options))
        self.head.sh("alice", f"lockstep trace {options} --duration 2s -o capture --force")
        self.assert_named("/home/alice/capture")
        return options

    def test_captures_with_the_jobs_own_aggregator(self):
        options = self.run_and_capture(block("with-aggregator"))
        denied = self.head.sh("bob", f"lockstep status {options}", check=False)
        self.assertEqual(denied.returncode, DENIED, denied.stdout + denied.stderr)
        address, token = options.split()[1], pathlib.Path(options.split()[3])
        pathlib.Path("/home/bob/token").write_text("0" * 64 + "\n")
        run("sh", "-c", "chown bob: /home/bob/token; chmod 600 /home/bob/token")
        for command in ("status", "trace --all --duration 1s -o taken"):
            denied = self.head.sh("bob", f"lockstep {command} --aggregator {address} --token-file ~/token", check=False)
            self.assertEqual(denied.returncode, DENIED, denied.stdout + denied.stderr)
        self.assertEqual(token.stat().st_mode & 0o777, 0o600)
        self.end()
        self.assert_all_ends()
        self.assertFalse(token.exists())

    def test_variables_of_the_user_reach_the_ranks(self):
        """Open MPI refuses -x if its environment also has a list of variables."""
        script = block("with-aggregator").replace("mpiexec ", "mpiexec -x MINE ")
        script = script.replace("python3 train.py", "sh -c 'echo mine is $MINE; exec python3 train.py'")
        self.start(f"export MINE=7; {script}")
        self.wait_for_ranks(8, self.aggregator_options())
        self.assertEqual(self.output.read_text().count("mine is 7"), 8)
        self.end()

    def test_captures_with_a_permanent_aggregator(self):
        self.start(block("standing"))
        wait_until(lambda: self.ranks("--aggregator head:7077 --token-file ~/.lockstep-token"), "the aggregator", self.logs)
        self.assert_eight(self.wait_for_ranks(8, "--aggregator head:7077 --token-file ~/.lockstep-token"))
        self.head.sh("alice", block("standing-trace").replace("-o capture", "-o standing"))
        self.assert_named("/home/alice/standing")
        self.end()

    def test_the_systems_daemons_connect_to_a_jobs_aggregator(self):
        """Two users each run a job on the same nodes, under root's daemons."""
        for name in ("a", "b"):
            self.nodes[name].sh("root", "lockstepd --log /tmp/lockstepd.log >/dev/null 2>&1 &")
            wait_until(lambda name=name: self.nodes[name].sh("root", "lockstep status", check=False).returncode == 0, f"{name}'s daemon")
        bobs = self.start(block("with-aggregator").replace("train.py", "pair.py").replace("-n 8", "-n 2"), user="bob")
        wait_until(lambda: "trace with" in self.output.read_text(), "bob's aggregator", self.logs)
        bob_output, self.output = self.output, self.output.with_name("output-alice")
        options = self.run_and_capture(block("with-aggregator"))
        self.assertIn("daemon at /run/lockstep/client.sock", self.output.read_text())
        self.assertEqual({rank["uid"] for rank in self.ranks(options)}, {12001})
        alices, self.output = self.output, bob_output
        self.assertEqual({rank["uid"] for rank in self.wait_for_ranks(2, self.aggregator_options(), user="bob")}, {12002})
        # Root's daemon on the node shows each user the user's own ranks, and no aggregator of another user.
        self.assertEqual({rank["uid"] for rank in self.ranks("", user="bob", node=self.nodes["a"])}, {12002})
        bobs.kill()
        self.output = alices
        self.head.sh("root", "kill $(pgrep -x mpiexec)")
        wait_until(lambda: all("lockstepd" in line for _, line in self.nodes["a"].processes()), "the ranks' end", lambda: str(self.nodes.leftovers()))
        warned = self.nodes["a"].sh("bob", "lockstep status").stdout
        self.assertNotIn(options.split()[1], warned)

    def test_a_node_without_the_token_warns_and_the_job_runs(self):
        self.nodes["b"].sh("root", "mkdir /tmp/alone; cp -a /home/alice/hosts /home/alice/train.py /tmp/alone; chown alice: /tmp/alone; "
                                   "mount --bind /tmp/alone /home/alice")
        try:
            self.start(block("with-aggregator"))
            options = self.aggregator_options()
            ranks = self.wait_for_ranks(4, options)
            wait_until(lambda: self.output.read_text().count("cannot capture this node's ranks") == 4, "four lines of node b", self.logs)
            self.assertEqual(sorted(rank["rank"] for rank in ranks), [0, 1, 2, 3])
            partial = self.head.sh("alice", f"lockstep trace {options} --duration 1s -o partial", check=False)
            self.assertEqual(partial.returncode, 7, partial.stderr)
            self.assertRegex(partial.stdout + partial.stderr, "ranks 4-7")
            # The node's own daemon has them.
            self.assertEqual(sorted(rank["rank"] for rank in self.ranks("", node=self.nodes["b"])), [4, 5, 6, 7])
        finally:
            self.end()
            run(*self.nodes["b"].inside("umount", "-l", "/home/alice"))

    def test_mpich(self):
        self.start(block("hydra").replace("train.py", "alone.py"))
        options = self.aggregator_options()
        ranks = self.wait_for_ranks(8, options)
        self.assertEqual(sorted(rank["rank"] for rank in ranks), list(range(8)))
        self.assertEqual({(rank["world_size"], rank["rank_source"], rank["job_source"]) for rank in ranks}, {(8, "PMI", "lockstep run")})
        self.assertEqual(len({rank["job"] for rank in ranks}), 1)
        self.head.sh("alice", f"lockstep trace {options} --duration 1s -o mpich")
        report = report_of("/home/alice/mpich")
        self.assertEqual({rank["rank"]: rank["host"] for rank in report["ranks"]}, {rank: "a" if rank < 4 else "b" for rank in range(8)})
        self.end("mpiexec.hydra")
        self.assert_all_ends()

    def test_mpich_with_a_socket_that_only_the_login_node_has(self):
        runtime = pathlib.Path("/run/user/12001")
        run(*self.head.inside("sh", "-ec", f"mkdir -p {runtime}; chown alice: {runtime}; chmod 700 {runtime}"))
        job = block("hydra").replace("train.py", "alone.py")
        self.start(f"export XDG_RUNTIME_DIR={runtime}; lockstepd --log ~/lockstepd.log & until lockstep status >/dev/null 2>&1; do sleep 0.1; done; {job}")
        self.wait_for_ranks(8, self.aggregator_options())
        output = self.output.read_text()
        self.assertIn(f"LOCKSTEP_SOCKET was {runtime}/lockstep/client.sock, where no daemon answers", output)
        self.assertNotIn("runs without Lockstep", output)
        self.end("mpiexec.hydra")


if __name__ == "__main__":
    # MPICH is unpacked and not installed, because Debian's alternatives allow only one mpiexec beside Open
    # MPI's.
    Debs(BIN.parent / "debs").unpack(["mpich"], MPICH)
    enter()
    del sys.argv[1:2]
    unittest.main(verbosity=2)
