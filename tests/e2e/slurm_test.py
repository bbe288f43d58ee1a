"""Tests Lockstep on a real Slurm cluster with the commands of docs/slurm.md, as administrator and as user.
Other cases: an unauthorised user, arrays, several steps, lost and forged environments, a plugin that
cannot work, and the prologs that replace it."""
import json
import pathlib
import re
import sys
import time
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "support"))
from live_job import report_of  # noqa: E402
from slurm_cluster import NODES, USERS, Cluster, enter, run  # noqa: E402
from waiting import wait_until  # noqa: E402
from verdict import CAUSES  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
PAGE = (REPOSITORY / "docs" / "slurm.md").read_text()
DENIED, NOT_FOUND = 5, 4
SIM_RANK = "/opt/lockstep/bin/lockstep-sim-rank"
TRAIN = f"""\
import os, sys
os.execv("{SIM_RANK}", ["lockstep-sim-rank", "--forever", "--seed", "7", "--time-scale", "4", "--microbatches", "2", *sys.argv[1:]])
"""
# A single rank. Its environment has no variables of Slurm except those that the arguments give.
ALONE = f"""\
import os, sys
kept = {{name: value for name, value in os.environ.items() if name.startswith(("CUDA_", "NVTX_", "NCCL_", "KINETO_", "LOCKSTEP_", "HOME", "PATH"))}}
given = dict(word.split("=", 1) for word in sys.argv[1:])
os.execve("{SIM_RANK}", "lockstep-sim-rank --forever --time-scale 4 --microbatches 2 --dp 1 --tp 1 --pp 1".split(), {{**kept, **given}})
"""
SLOW_RANK = 5
SLOWED = f"--ranks-per-host 4 --fault slow_gpu --fault-rank {SLOW_RANK} --fault-size 0.2"
PAIR = "--dp 2 --tp 1 --pp 1 --ranks-per-host 2"


def block(name):
    """Returns the commands of docs/slurm.md after <!-- run: name -->."""
    found = re.search(rf"<!-- run: {name} -->\n```sh\n(.*?)```", PAGE, re.S)
    if not found:
        raise AssertionError(f"docs/slurm.md has no block {name}")
    return found.group(1)


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(BIN, REPOSITORY / "deploy" / "slurm")
        cls.cluster.start()
        cls.cluster.root(block("admin-build"))
        cls.cluster.root(block("admin-head"))
        token = pathlib.Path("/etc/lockstep/token")
        wait_until(token.exists, "the token", cls.cluster.logs)
        for name in NODES:
            cls.cluster.nodes[name].sh(block("admin-node").replace("lockstepd.log", f"lockstepd-{name}.log"))
        cls.cluster.root(block("admin-everywhere"))
        for user in USERS:
            pathlib.Path("/home", user, "train.py").write_text(TRAIN)
            pathlib.Path("/home", user, "alone.py").write_text(ALONE)
        wait_until(lambda: len(cls.status("alice")["daemons"]) == 2, "two daemons", cls.cluster.logs)

    def tearDown(self):
        self.cluster.root("scancel -u alice; scancel -u bob")
        wait_until(lambda: not self.cluster.root("squeue -h").stdout.strip(), "an empty queue", self.cluster.logs)

    # ---- helpers of the tests

    @classmethod
    def status(cls, user, job=""):
        done = cls.cluster.login(user, f"lockstep status --format json {job and '--job ' + job}", check=False)
        return json.loads(done.stdout) if done.stdout else {"daemons": []}

    @classmethod
    def ranks(cls, user, job=""):
        return [rank for daemon in cls.status(user, job)["daemons"] for rank in daemon["ranks"]]

    def wait_for_ranks(self, count, user="alice", job=""):
        wait_until(lambda: len(self.ranks(user, job)) >= count, f"{count} ranks", self.cluster.logs)
        return self.ranks(user, job)

    def submit(self, user, tasks, *options, env=None):
        script = pathlib.Path(f"/home/{user}/tasks.sh")
        script.write_text(f"#!/bin/sh\n{tasks}\n")
        return self.cluster.login(user, f"sbatch --parsable {' '.join(options)} tasks.sh", env=env).stdout.strip()

    def daemon_log(self, name):
        return pathlib.Path(f"/var/log/lockstepd-{name}.log").read_text()

    def assert_ended(self, name, job):
        wait_until(lambda: f"job_ended job={job} " in self.daemon_log(name),
                                f"{name}'s daemon to forget {job}", self.cluster.logs)

    def assert_denied(self, done, text):
        self.assertEqual(done.returncode, DENIED, done.stdout + done.stderr)
        self.assertIn(text, done.stderr)

    # ---- tests

    def test_captures_eight_ranks_over_two_nodes(self):
        script = block("user-script").replace("train.py", f"train.py {SLOWED}")
        job = self.cluster.login("alice", script + block("user-submit") + 'echo "$JOB"').stdout.split()[-1]
        ranks = self.wait_for_ranks(8, job=job)
        self.assertEqual({(r["job"], r["uid"], r["world_size"], r["job_by_scheduler"]) for r in ranks}, {(f"{job}.0", 12001, 8, True)}, ranks)
        self.assertEqual(sorted(r["rank"] for r in ranks), list(range(8)))

        denied = f"job {job}.0 is user 12001's, and you are user 12002"
        self.assert_denied(self.cluster.login("bob", f"lockstep trace --job {job} --duration 1s", check=False), denied)
        self.assertEqual(self.ranks("bob"), [])
        self.assert_denied(self.cluster.login("bob", "LOCKSTEP_AGGREGATOR=head:7077 setpriv --no-new-privs env PATH=/opt/lockstep/bin "
                                                     f"lockstep trace --job {job} --duration 1s", check=False), "no MUNGE credential")

        begun = time.monotonic()
        traced = self.cluster.login("alice", f"JOB={job}\n" + block("user-trace"), timeout=90)
        print(f"status and a capture of 2 s by job id took {time.monotonic() - begun:.1f} s", file=sys.stderr)
        report = report_of("/home/alice/capture")
        self.assertIn(SLOW_RANK, report["stragglers"][0]["ranks"], traced.stdout)
        self.assertIn(report["stragglers"][0]["cause"], CAUSES["slow_gpu"])
        self.assertEqual(report["capture"]["job"], f"{job}.0")
        self.assertEqual((report["capture"]["world_size"], report["capture"]["missing_ranks"]), (8, []))
        self.assertEqual(sorted({rank["host"] for rank in report["ranks"]}), list(NODES))

        capture = report["capture"]["id"]
        self.assert_denied(self.cluster.login("bob", f"lockstep report {capture} --aggregator head:7077", check=False), "is user 12001's")
        self.assertEqual(self.cluster.login("alice", f"lockstep report {capture} --aggregator head:7077 --top 1").returncode, 0)
        status = self.cluster.root("/opt/lockstep/bin/lockstep status --format json --aggregator head:7077 --token-file /etc/lockstep/token")
        self.assertEqual(sum(len(d["ranks"]) for d in json.loads(status.stdout)["daemons"]), 8)

        self.cluster.login("alice", f"scancel {job}")
        for name in NODES:
            self.assert_ended(name, f"{job}.0")
            wait_until(lambda: not self.leftover(name), f"{name} to be empty", lambda: str(self.leftover(name)))
        output = pathlib.Path(f"/home/alice/slurm-{job}.out").read_text()
        lines = [line for line in output.splitlines() if line.startswith("lockstep: set ")]
        self.assertEqual(len(lines), 1, f"the script's, which its tasks inherit: {output}")

    def leftover(self, name):
        """Returns processes other than Slurm's and the daemon, and rings that the daemon still holds."""
        node = self.cluster.nodes[name]
        processes = [p for p in node.processes() if p[1] not in ("slurmd", "lockstepd", "lockstep-broker")]
        rings = node.sh("ls -l /proc/$(pgrep lockstepd)/fd | grep memfd || true").stdout.splitlines()
        return processes + rings

    def test_lists_and_selects_job_steps(self):
        job = self.submit("alice", f"srun --mpi=pmix -n2 --overlap python3 train.py {PAIR} &\n"
                                   f"srun --mpi=pmix -n2 --overlap python3 train.py {PAIR} &\nwait", "--lockstep", "-n2")
        self.wait_for_ranks(4, job=job)
        several = self.cluster.login("alice", f"lockstep trace --job {job} --duration 500ms", check=False)
        self.assertEqual(several.returncode, NOT_FOUND, several.stderr)
        for step in (f"{job}.0 (ranks 0, 1)", f"{job}.1 (ranks 0, 1)"):
            self.assertIn(step, several.stderr)
        self.cluster.login("alice", f"lockstep trace --job {job}.1 --duration 500ms -o step")
        self.assertEqual(report_of("/home/alice/step")["capture"]["job"], f"{job}.1")

    def test_selects_array_tasks_by_each_number(self):
        array = self.submit("alice", f"echo $SLURM_JOB_ID > number-$SLURM_ARRAY_TASK_ID\nsrun --mpi=pmix -n2 python3 train.py {PAIR}",
                            "--lockstep", "--array=3,4", "-n2")
        self.wait_for_ranks(4)
        number = pathlib.Path("/home/alice/number-3").read_text().strip()
        for name in (f"{array}_3", f"{array}_3.0", number):
            wanted = {f"{array}_3.0"} if name != array else {f"{array}_3.0", f"{array}_4.0"}
            self.assertEqual({rank["job"] for rank in self.ranks("alice", name)}, wanted, name)
        several = self.cluster.login("alice", f"lockstep trace --job {array} --duration 500ms", check=False)
        for task in (f"{array}_3.0", f"{array}_4.0"):
            self.assertIn(task, several.stderr)
        self.cluster.login("alice", f"lockstep trace --job {array}_4 --duration 500ms -o task")
        self.assertEqual(report_of("/home/alice/task")["capture"]["job"], f"{array}_4.0")

    def test_a_heterogeneous_step_is_one_job(self):
        job = self.submit("alice", "srun --lockstep --het-group=0,1 python3 alone.py", "-n1", "-w n1", ":", "-n1", "-w n2")
        ranks = self.wait_for_ranks(2)
        self.assertEqual([(r["job"], r["job_by_scheduler"]) for r in ranks], [(f"{job}.0", True)] * 2)

    def test_handles_lost_and_forged_environments(self):
        job = self.submit("alice", "srun -n1 python3 alone.py", "--lockstep", "-n1", "-w n1")
        lost = self.wait_for_ranks(1)
        self.assertEqual([(r["job"], r["job_by_scheduler"]) for r in lost], [(f"{job}.0", True)])
        # Bob uses the same node, the name of alice's job, and her variables.
        forged = self.submit("bob", f"srun -n1 --overlap python3 alone.py LOCKSTEP_JOB={job}.0 &\n"
                                    f"srun -n1 --overlap python3 alone.py SLURM_JOB_ID={job} &\nwait",
                             "--lockstep", "-n1", "-w n1")
        mine = self.wait_for_ranks(1, user="bob")
        self.assertEqual(len(mine), 1)
        self.assertIn(mine[0]["job"], (f"{forged}.0", f"{forged}.1"), "set right")
        warned = self.cluster.nodes["n1"].sh("setpriv --reuid=12002 --clear-groups /opt/lockstep/bin/lockstep status").stdout
        self.assertIn(f"it claims job {job}.0, which is user 12001's", warned)
        self.assertEqual([r["job"] for r in self.ranks("alice")], [f"{job}.0"])
        command = self.cluster.nodes["n1"].inside("setpriv", "--reuid=12002", "--clear-groups", "/opt/lockstep/bin/lockstep", "job", "end", "--id", job)
        self.assert_denied(run(*command, check=False), "only root")

    def test_forgets_a_killed_step(self):
        job = self.submit("alice", f"srun --mpi=pmix -n2 python3 train.py {PAIR}", "--lockstep", "-n2", "-w n2")
        self.wait_for_ranks(2)
        node = self.cluster.nodes["n2"]
        node.sh(f"kill -9 $(pgrep -f 'slurmstepd: \\[{job}.0\\]')")
        self.assert_ended("n2", f"{job}.0")
        node.sh("pkill -9 lockstep-sim-ra || true")

    def test_ignores_a_job_without_the_option(self):
        done = self.cluster.login("alice", "srun -n1 env")
        self.assertNotIn("LOCKSTEP_SOCKET", done.stdout)
        asked = self.cluster.login("alice", "srun --lockstep=nccl -n1 env")
        self.assertIn("LOCKSTEP_SOCKET=/run/lockstep/client.sock", asked.stdout)
        self.assertNotIn("CUDA_INJECTION64_PATH", asked.stdout)
        wrong = self.cluster.login("alice", "srun --lockstep=everything -n1 env", check=False)
        self.assertNotEqual(wrong.returncode, 0)
        self.assertIn("give auto, cupti, nccl or off", wrong.stderr)

    def test_a_broken_plugin_does_not_affect_the_job(self):
        plugstack = pathlib.Path("/etc/slurm/plugstack.conf")
        before = plugstack.read_text()
        self.addCleanup(plugstack.write_text, before)
        hangs = pathlib.Path("/opt/hangs/bin/lockstep")
        hangs.parent.mkdir(parents=True)
        hangs.write_text("#!/bin/sh\nexec sleep 600\n")
        hangs.chmod(0o755)
        plugstack.write_text("")
        bare_s = None  # duration of the job without a plugin, which depends on the machine's load
        for prefix, most_s in ((None, 60), ("/opt/nothing", 3), ("/opt/hangs", 6)):
            if prefix:
                plugstack.write_text(f"optional /opt/lockstep/lib/spank_lockstep.so prefix={prefix} default=on\n")
            begun = time.monotonic()
            done = self.cluster.login("alice", "srun -n2 sh -c 'exit 7'", check=False)
            took_s = time.monotonic() - begun
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertLess(took_s - (bare_s or 0), most_s, prefix)
            if not prefix:
                bare_s = took_s
                continue
            self.assertEqual(done.stderr.count("the job runs without Lockstep"), 1, done.stderr)
        plugstack.write_text(before.replace("\n", " default=on\n"))
        self.assertIn("LOCKSTEP_SOCKET", self.cluster.login("alice", "srun -n1 env").stdout)
        self.assertNotIn("LOCKSTEP_SOCKET", self.cluster.login("alice", "srun --lockstep=off -n1 env").stdout)

    def test_z_prologs_replace_the_plugin(self):
        pathlib.Path("/etc/slurm/plugstack.conf").write_text("")
        self.cluster.root(block("admin-prolog"))
        job = self.submit("alice", f"srun --mpi=pmix -n2 python3 train.py {PAIR}", "-n2", "-w n1", env={"LOCKSTEP": "1"})
        self.assertEqual({rank["job"] for rank in self.wait_for_ranks(2)}, {f"{job}.0"})
        self.cluster.login("alice", f"lockstep trace --job {job} --duration 500ms -o prolog")
        self.assertEqual(len(report_of("/home/alice/prolog")["ranks"]), 2)
        self.submit("bob", f"srun -n1 python3 alone.py LOCKSTEP_JOB={job}", "-n1", "-w n1", env={"LOCKSTEP": "1"})
        wait_until(lambda: f"claims job {job}, which is user 12001's" in self.daemon_log("n1"), "the refusal", self.cluster.logs)
        self.cluster.login("alice", f"scancel {job}")
        self.assert_ended("n1", job)
        self.assertNotIn("LOCKSTEP_SOCKET", self.cluster.login("alice", "srun -n1 env").stdout)


if __name__ == "__main__":
    enter()
    del sys.argv[1:2]
    unittest.main(verbosity=2)
