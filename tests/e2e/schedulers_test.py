"""Runs the commands of docs/pbs.md, lsf.md, flux.md and torchrun.md on two nodes. Scripts simulate the
schedulers: they start the job at the same place with the same variables. The launcher under PBS and LSF is
Open MPI's own."""
import pathlib
import re
import shutil
import sys
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "support"))
from live_job import report_of  # noqa: E402
from nodes import Nodes, enter, ranks_of  # noqa: E402
from waiting import wait_until  # noqa: E402
from verdict import CAUSES  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
SLOW_RANK = 5
TRAIN = f"""\
import os
os.execv("/opt/lockstep/bin/lockstep-sim-rank", "lockstep-sim-rank --forever --seed 7 --time-scale 4 --microbatches 2 --ranks-per-host 4 "
         "--fault slow_gpu --fault-rank {SLOW_RANK} --fault-size 0.2".split())
"""
# A rank without MPI, because Open MPI's library would look for Flux, which is not installed.
ALONE = """\
import os
os.environ["LD_LIBRARY_PATH"] = "/opt/lockstep/lib/sim_stack"
os.execv("/opt/lockstep/bin/lockstep_cuda_loop", ["lockstep_cuda_loop", "300"])
"""
# Starts a script on the first node without the caller's environment, as a batch system does.
QSUB = """\
#!/bin/sh
[ "$1" = -e ] && errors=$2 && shift 2
setsid ssh a "cd $PWD; PBS_JOBID=88.head PBS_O_WORKDIR=$PWD PBS_NODEFILE=$HOME/nodefile sh $1 2>$errors" >job.out 2>&1 &
echo 88.head
"""
BSUB = """\
#!/bin/sh
cat > .lsbatch
setsid ssh a "cd $PWD; LSB_JOBID=12 LSB_JOBINDEX=0 LSB_DJOB_HOSTFILE=$HOME/nodefile LSB_BATCH_JID=12 sh .lsbatch" >job.out 2>&1 &
echo 'Job <12> is submitted to default queue <normal>.'
"""
FLUX = """\
#!/usr/bin/python3
# batch SCRIPT; run -N2 -n8 COMMAND: four tasks on each node, with the caller's environment.
import os, shlex, subprocess, sys
verb, *words = sys.argv[1:]
if verb == "batch":
    script = f"cd {os.getcwd()}; FLUX_JOB_ID=f2Batch FLUX_JOB_SIZE=1 FLUX_TASK_RANK=0 sh {words[0]}"
    subprocess.Popen(["ssh", "a", script], start_new_session=True, stdin=subprocess.DEVNULL, stdout=open("job.out", "w"), stderr=subprocess.STDOUT)
    print("f2Batch")
    sys.exit(0)
assert words[:2] == ["-N2", "-n8"], words
tasks = []
for rank in range(8):
    own = {"FLUX_JOB_ID": "f3Run", "FLUX_TASK_RANK": rank, "FLUX_TASK_LOCAL_ID": rank % 4, "FLUX_JOB_SIZE": 8, "FLUX_JOB_NNODES": 2}
    env = [f"{name}={shlex.quote(str(value))}" for name, value in {**os.environ, **own}.items()]
    tasks.append(subprocess.Popen(["ssh", "ab"[rank // 4], f"cd {os.getcwd()}; env {' '.join(env)} {shlex.join(words[2:])}"]))
sys.exit(max(task.wait() for task in tasks))
"""
TORCHRUN = """\
#!/bin/sh
[ "$1 $2" = "--standalone --nproc-per-node" ] || exit 2
exec python3 /opt/bin/fake_torchrun.py --rdzv-id 5f0c-standalone --nproc-per-node $3 -- python3 $4
"""


class Schedulers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.nodes = Nodes(BIN)
        cls.nodes.start()
        cls.head = cls.nodes["head"]
        home = pathlib.Path("/home/alice")
        (home / "nodefile").write_text("a\n" * 4 + "b\n" * 4)
        for name, text in (("qsub", QSUB), ("bsub", BSUB), ("flux", FLUX), ("torchrun", TORCHRUN)):
            (program := pathlib.Path("/opt/bin", name)).write_text(text)
            program.chmod(0o755)
        shutil.copy(REPOSITORY / "tests/support/fake_torchrun.py", "/opt/bin")

    def follow(self, page, program, count):
        """Writes and submits the page's script, and captures it when `count` ranks are there. Returns the
        ranks and the report."""
        text = (REPOSITORY / "docs" / page).read_text()
        blocks = dict(re.findall(r"<!-- run: (\S+) -->\n```sh\n(.*?)```", text, re.S))
        self.assertEqual(set(blocks), {"script", "submit", "trace"})
        home = pathlib.Path("/home/alice")
        (home / "train.py").write_text(program)
        (home / "job.err").unlink(missing_ok=True)
        job = self.head.sh("alice", blocks["script"] + blocks["submit"] + 'echo "$JOB"').stdout.split()[-1]
        status = blocks["trace"].splitlines()
        ask = "\n".join([f"JOB='{job}'", status[0], status[1] + " --format json"])

        def ranks():
            return ranks_of(self.head.sh("alice", ask, check=False).stdout)

        wait_until(lambda: len(ranks()) == count, f"{count} ranks", lambda: self.logs() + str(ranks()))
        found = ranks()
        self.head.sh("alice", f"rm -rf capture; JOB='{job}'\n" + blocks["trace"], timeout=90)
        report = report_of("/home/alice/capture")
        self.assertEqual({rank["rank"]: rank["host"] for rank in report["ranks"]},
                         {rank: "a" if rank < 4 else "b" for rank in range(count)})
        return found, report

    def logs(self):
        return "".join(f"\n--- {name}\n{path.read_text()[-3000:]}" for name in ("job.out", "job.err")
                       if (path := pathlib.Path("/home/alice", name)).exists())

    def tearDown(self):
        for name in ("a", "b", "head"):
            self.nodes[name].clear()

    def assert_named(self, ranks, report):
        self.assertEqual({(rank["world_size"], rank["rank_source"], rank["job_source"]) for rank in ranks}, {(8, "OMPI", "PMIx")})
        self.assertIn(SLOW_RANK, report["stragglers"][0]["ranks"])
        self.assertIn(report["stragglers"][0]["cause"], CAUSES["slow_gpu"])
        self.assertEqual(report["capture"]["missing_ranks"], [])

    def test_pbs(self):
        self.assert_named(*self.follow("pbs.md", TRAIN, 8))

    def test_lsf(self):
        self.assert_named(*self.follow("lsf.md", TRAIN, 8))

    def test_flux(self):
        ranks, report = self.follow("flux.md", ALONE, 8)
        self.assertEqual({(rank["job"], rank["world_size"], rank["rank_source"], rank["job_source"]) for rank in ranks},
                         {("f3Run", 8, "Flux", "Flux")})
        self.assertEqual(report["capture"]["job"], "f3Run")

    def test_torchrun(self):
        text = (REPOSITORY / "docs/torchrun.md").read_text()
        blocks = dict(re.findall(r"<!-- run: (\S+) -->\n```sh\n(.*?)```", text, re.S))
        pathlib.Path("/home/alice/train.py").write_text(ALONE)
        node = self.nodes["a"]
        job = node.start("alice", blocks["one-node"], "/home/alice/job.out")
        try:
            wait_until(lambda: "ranks 0, 1 of 2" in node.sh("alice", "lockstep status", check=False).stdout, "two ranks", self.logs)
            node.sh("alice", "rm -rf capture;" + blocks["trace"])
            report = report_of("/home/alice/capture")
            self.assertEqual(([rank["rank"] for rank in report["ranks"]], report["capture"]["job"]), ([0, 1], "5f0c-standalone"))
        finally:
            job.kill()
            job.wait(10)


if __name__ == "__main__":
    enter()
    del sys.argv[1:2]
    unittest.main(verbosity=2)
