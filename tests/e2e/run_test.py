"""Tests `lockstep run` according to docs/launching.md, with real processes on the simulated stack. Cases: in
a container, with variables already set, under launchers that drop the environment, and with daemons that
are absent, die or are not trusted.

It mounts in its own mount namespace, as root or as a user under `unshare -Urm`."""
import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from sandbox import Container, Sandbox, may_mount  # noqa: E402
from waiting import wait_until  # noqa: E402
from live_job import report_of  # noqa: E402

INSIDE = "LOCKSTEP_TEST_IN_NAMESPACE"
BIN = pathlib.Path(sys.argv[1]).resolve()
TESTING = BIN.parent / "lib"
MPIEXEC = ["mpiexec", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]
FORWARD = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN")


def enter_namespace():
    """Runs this script again in a namespace that permits mount and chroot. Without one, it leaves out the
    tests that need it."""
    if INSIDE in os.environ:
        return
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for how in (["-m"], ["-Urm"]):
        if may_mount(*how):
            os.environ[INSIDE] = " ".join(how)
            os.execvp("unshare", ["unshare", *how, sys.executable, *sys.argv])
    os.environ[INSIDE] = ""


class SandboxTest(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(BIN)
        self.addCleanup(self.sandbox.close)

    def assert_captured(self, ranks=1):
        done = self.sandbox.run("trace", "--duration", "1s", "-o", self.sandbox.folder / "capture")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = report_of(self.sandbox.folder / "capture")
        self.assertEqual(len(report["ranks"]), ranks)
        self.assertTrue(all(rank["compute_ns"] > 0 for rank in report["ranks"]), report["ranks"])
        return report

    def assert_trained(self, process):
        """Checks that the program ran to its end without an error."""
        self.assertEqual(process.wait(60), 0, process.output.read_text())
        self.assertIn("every sum is right", process.output.read_text())


class Command(SandboxTest):
    """Tests the effects of the wrapper on the command."""

    def test_exit_codes_are_those_of_the_command_or_a_shell(self):
        script = self.sandbox.folder / "not-executable"
        script.write_text("#!/bin/sh\n")
        for command, code in ((["sh", "-c", "exit 37"], 37), (["no-such-command"], 127), ([script], 126)):
            self.assertEqual(self.sandbox.run("run", "--", *command).returncode, code, command)

    def test_signals_reach_the_command(self):
        trap = self.sandbox.start(self.sandbox.lockstep("run", "--", "sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done"))
        sleeping = self.sandbox.start(self.sandbox.lockstep("run", "--", "sleep", "60"))
        wait_until(lambda: "ready" in trap.output.read_text(), "the trap")
        wait_until(lambda: pathlib.Path(f"/proc/{sleeping.pid}/comm").read_text() == "sleep\n", "the command under the wrapper's pid")
        trap.send_signal(signal.SIGTERM)
        sleeping.kill()
        self.assertEqual(trap.wait(60), 5)
        self.assertEqual(sleeping.wait(60), -signal.SIGKILL)

    def test_passes_bytes_unchanged_and_holds_no_pipe(self):
        data = os.urandom(1 << 20)
        done = self.sandbox.run("run", "--", "sh", "-c", "cat; echo its own >&2", input=data, text=False)
        self.assertEqual(done.stdout, data)
        output = done.stderr.decode().splitlines()
        self.assertEqual(output[-1], "its own")
        self.assertRegex(output[0], "^lockstep: set ")
        self.assertEqual(len(output), 2, output)

    def test_closed_streams_stay_closed(self):
        answer = self.sandbox.folder / "answer"
        look = f'for i in 0 1 2 3 4 5 6; do [ -e /proc/$$/fd/$i ] && open="$open $i"; done; echo "open:$open" > {answer}; exit 37'
        # The first run starts the daemon, and the second one finds it.
        for closed, left in (((0, 1, 2), ""), ((1,), " 0 2")):
            streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            code = subprocess.call(self.sandbox.lockstep("run", "--", "sh", "-c", look), env=self.sandbox.env, **streams,
                                   preexec_fn=lambda closed=closed: [os.close(fd) for fd in closed])
            self.assertEqual((code, answer.read_text()), (37, f"open:{left}\n"))
        self.assertEqual(len(self.sandbox.daemons()), 1)
        for fd in range(3):
            self.assertNotIn(str(self.sandbox.sockets / "start.lock"), os.readlink(f"/proc/{self.sandbox.daemons()[0]}/fd/{fd}"))


class Variables(SandboxTest):
    """Tests variables that are already set."""

    def start_job(self, *run_args, launcher=(), steps=0, **env):
        return self.sandbox.start([*launcher, *self.sandbox.lockstep("run", *run_args, "--", *self.sandbox.gpu_program("--steps", steps))],
                               env={**self.sandbox.gpu_env(), **env})

    def value_in(self, process, name):
        values = pathlib.Path(f"/proc/{process.pid}/environ").read_bytes().decode().split("\0")
        return dict(v.split("=", 1) for v in values if v).get(name)

    def test_keeps_another_cuda_tool_and_captures_by_preload(self):
        tool, says = self.sandbox.folder / "tool.so", self.sandbox.folder / "tool-says"
        subprocess.run(["gcc", "-Wall", "-Werror", "-shared", "-fPIC", "-o", tool, SUPPORT / "injected_tool.c"], check=True)
        job = self.start_job("--preload", CUDA_INJECTION64_PATH=str(tool), INJECTED_TOOL_SAYS=str(says))
        self.sandbox.wait_for_ranks()
        self.assertEqual(self.value_in(job, "CUDA_INJECTION64_PATH"), str(tool))
        self.assertIn(f"CUDA_INJECTION64_PATH is already set ({tool}) and unchanged", job.output.read_text())
        self.assertEqual(says.read_text(), "called\n")
        self.assert_captured()

    def test_chains_other_nvtx_and_nccl_tools(self):
        plugin, nvtx = (TESTING / f"liblockstep_sim_nccl_test_{name}.so" for name in ("plugin", "nvtx_tool"))
        saw = {name: self.sandbox.folder / name for name in ("plugin", "nvtx")}
        # A rank alone in its world has no collective to match.
        job = self.start_job(launcher=MPIEXEC, steps=40, NCCL_PROFILER_PLUGIN=str(plugin), NVTX_INJECTION64_PATH=str(nvtx),
                             LOCKSTEP_TEST_PLUGIN_MASK="2", LOCKSTEP_TEST_PLUGIN_OUT=str(saw["plugin"]), LOCKSTEP_TEST_NVTX_OUT=str(saw["nvtx"]))
        self.sandbox.wait_for_ranks(2)
        report = self.assert_captured(ranks=2)
        self.assertGreater(report["capture"]["matching"]["by"]["nccl_seq"], 0, report["capture"]["matching"])
        # The tools write their last lines when the program ends.
        self.assert_trained(job)
        self.assertIn("\nstart ", saw["plugin"].read_text())
        self.assertIn("push ncclAllReduce", saw["nvtx"].read_text())
        for name, path in (("NVTX_INJECTION64_PATH", nvtx), ("NCCL_PROFILER_PLUGIN", plugin)):
            self.assertIn(f"{name} was {path}: Lockstep replaces it", job.output.read_text())

    def test_keeps_set_variables_and_prints_a_line_for_each(self):
        preload = str(self.sandbox.stack / "libcuda.so.1")
        done = self.sandbox.run("run", "--", "env", env={"KINETO_USE_DAEMON": "0", "CUDA_INJECTION64_PATH": "/opt/other.so",
                                                      "NCCL_PROFILER_PLUGIN": "none", "LD_PRELOAD": preload})
        seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        kept = {"KINETO_USE_DAEMON": "0", "CUDA_INJECTION64_PATH": "/opt/other.so", "NCCL_PROFILER_PLUGIN": "none",
                "LD_PRELOAD": preload, "LOCKSTEP_SOCKET": str(self.sandbox.socket)}
        self.assertEqual({name: seen[name] for name in kept}, kept)
        lines = done.stderr.splitlines()
        for name in ("KINETO_USE_DAEMON", "CUDA_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN"):
            self.assertEqual(len([line for line in lines if line.startswith(f"lockstep: {name} is already set")]), 1, lines)
        self.assertEqual(lines[-1], f"lockstep: set NVTX_INJECTION64_PATH, LOCKSTEP_SOCKET; daemon at {self.sandbox.socket}")
        self.assertEqual(len(lines), 4, lines)


class Daemons(SandboxTest):
    def test_eight_concurrent_runs_start_one_daemon(self):
        ranks = [self.sandbox.start(self.sandbox.lockstep("run", "--", "sleep", "1")) for _ in range(8)]
        self.assertEqual([rank.wait(60) for rank in ranks], [0] * 8)
        self.assertEqual(len(self.sandbox.daemons()), 1)
        self.assertEqual([rank.output.read_text().count(f"daemon at {self.sandbox.socket}") for rank in ranks], [1] * 8)

    def test_replaces_an_unused_socket(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
            dead.bind(str(self.sandbox.socket))
        done = self.sandbox.run("run", "--", "true")
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"daemon at {self.sandbox.socket}", done.stderr)
        self.assertEqual(len(self.sandbox.daemons()), 1)

    def test_refuses_a_folder_that_others_may_change(self):
        def refused(why):
            done = self.sandbox.run("run", "--", "echo", "ran")
            self.assertEqual((done.returncode, done.stdout), (0, "ran\n"))
            self.assertIn(str(self.sandbox.socket), done.stderr)
            self.assertIn(why, done.stderr)
            self.assertIn("the command runs without Lockstep", done.stderr)
            self.assertEqual(self.sandbox.daemons(), [])

        self.sandbox.sockets.chmod(0o770)
        refused("writable for group or others")
        self.sandbox.sockets.chmod(0o700)
        try:
            os.chown(self.sandbox.sockets, os.geteuid() + 54321, -1)
        except OSError as error:
            print(f"a folder of another user was not tried: {error}")
            return
        refused("belongs to another user")
        os.chown(self.sandbox.sockets, os.geteuid(), -1)

    def test_ranks_reconnect_to_a_restarted_daemon(self):
        # SIGKILL leaves the socket behind.
        job = self.sandbox.start(self.sandbox.lockstep("run", "--", *self.sandbox.gpu_program("--steps", "0")), env=self.sandbox.gpu_env())
        pid = self.sandbox.wait_for_ranks()[0]["pid"]
        self.assertEqual(pid, job.pid)
        done = self.sandbox.run("doctor", "--pid", pid)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for words in (f"client: loaded from {self.sandbox.client}, by CUDA_INJECTION64_PATH", "libcudart: ", "libnccl: ",
                      f"{self.sandbox.socket} knows it as rank 0"):
            self.assertIn(f"ok      {words}" if "rank" not in words else words, done.stdout)
        self.sandbox.end_daemons(signal.SIGKILL)
        self.assertTrue(stat.S_ISSOCK(self.sandbox.socket.stat().st_mode))
        self.assertIsNone(job.poll())
        self.assertEqual(self.sandbox.run("run", "--", "true").returncode, 0)
        self.assertEqual([rank["pid"] for rank in self.sandbox.wait_for_ranks()], [pid])
        self.assert_captured()


class Unreached(SandboxTest):
    """Tests ranks that know a daemon but never register. They must run on, and status must name them after
    ten seconds."""

    def start_job(self, before, env=None, container=None):
        """Starts a job under its own launcher, with 18 s of work. Status can name the rank after 10 s, and a busy
        machine needs some more."""
        program = (container or self.sandbox).gpu_program("--steps", "45", "--matmuls", "20")
        return self.sandbox.start([*before, *program], whole_env={**self.sandbox.env, **(env or {})})

    def assert_named(self, jobs):
        """`jobs` maps a name to a process and the words of its warning. All jobs run at once and share one
        wait."""
        began = time.monotonic()
        wait_until(lambda: all(self.sandbox.warnings_of(job.named_pid or job.pid) for job, _ in jobs.values()), "every warning",
                   lambda: json.dumps(self.sandbox.status(), indent=1) + "".join(job.output.read_text() for job, _ in jobs.values()))
        self.assertGreater(time.monotonic() - began, 5, "a young process may still come")
        for name, (job, says) in jobs.items():
            with self.subTest(name):
                warnings = self.sandbox.warnings_of(job.named_pid or job.pid)
                self.assertEqual(len(warnings), 1, warnings)
                for words in says:
                    self.assertIn(words, warnings[0])
        for job, _ in jobs.values():
            self.assert_trained(job)


def dropping(sandbox, **left):
    """Returns `env -i` with the variables that the program itself needs."""
    return ["env", "-i", *(f"{name}={value}" for name, value in sandbox.gpu_env(**left).items())]


class Launchers(Unreached):
    def test_warns_of_ranks_without_the_environment(self):
        srun = self.sandbox.folder / "srun"
        srun.write_text("#!/bin/sh\n# srun --export=NONE: the step gets Slurm's variables and nothing of the caller's.\n" +
                        "exec " + " ".join(dropping(self.sandbox, SLURM_PROCID="0")) + ' "$@"\n')
        launcher = self.sandbox.folder / "launcher"
        launcher.write_text("#!/bin/sh\n# As mpiexec does, a child per rank; as sudo does, with another environment.\n" +
                            " ".join(dropping(self.sandbox)) + ' "$@" &\necho child $!\nwait $!\n')
        for script in (srun, launcher):
            script.chmod(0o755)
        run = self.sandbox.lockstep("run", "--")
        remedy = "put `lockstep run --` directly before the program"
        jobs = {
            "env -i": (self.start_job([*run, *dropping(self.sandbox)]), ["the command of `lockstep run` has dropped", remedy]),
            "srun": (self.start_job([*run, srun]), ["rank 0 (pid", remedy]),
            "a child": (self.start_job([*run, launcher]), ["a launcher below launcher (pid", remedy]),
            # A process of sshd or of a launcher's daemon has no ancestor with Lockstep's variables.
            "ssh": (self.start_job(dropping(self.sandbox, OMPI_COMM_WORLD_RANK="0")), ["rank 0 (pid", "it has no daemon's address", remedy]),
        }
        for job, _ in jobs.values():
            job.named_pid = None
        child = jobs["a child"][0]
        wait_until(lambda: "child " in child.output.read_text(), "the launcher's child")
        child.named_pid = int(child.output.read_text().split("child ")[1].split()[0])
        self.assert_named(jobs)
        # No rank got the daemon's address from its environment. The daemon stayed alive because one of them
        # had connected to it.
        self.assertEqual(len(self.sandbox.daemons()), 1)

    def test_one_wrapper_around_mpiexec_is_enough_on_one_node(self):
        work = self.sandbox.gpu_program("--steps", "0")
        job = self.sandbox.start(self.sandbox.lockstep("run", "--", *MPIEXEC, *work), env=self.sandbox.gpu_env())
        ranks = self.sandbox.wait_for_ranks(2)
        self.assertEqual(sorted(rank["rank"] for rank in ranks), [0, 1])
        self.assertEqual({rank["rank_source"] for rank in ranks}, {"OMPI"})
        job.terminate()
        job.wait(60)


class Containers(Unreached):
    CLIENT = "/opt/elsewhere/liblockstep_client.so"

    def container(self, name):
        return Container(self.sandbox, name)

    def container_env(self, container, socket_path, **more):
        """Returns the environment that `docker run -e` would pass."""
        return {**container.gpu_env(LOCKSTEP_SOCKET=str(socket_path), **dict.fromkeys(FORWARD, self.CLIENT)), **more}

    def test_captures_a_container_with_other_paths(self):
        self.sandbox.start_daemon()
        box = self.container("whole")
        box.put(self.sandbox.client, str(pathlib.Path(self.CLIENT).parent))
        box.mount(self.sandbox.sockets, "/run/mounted")
        env = self.container_env(box, "/run/mounted/client.sock", RANK="0", WORLD_SIZE="1", LOCKSTEP_JOB="boxed")
        # A rank may have its own pid namespace if the daemon is in a parent namespace.
        job = self.sandbox.start(box.command(*box.gpu_program("--steps", "0"), namespaces=("--mount", "--pid", "--fork", "--kill-child")),
                              whole_env=env)
        rank = self.sandbox.wait_for_ranks()[0]
        self.assertEqual((rank["job"], rank["program"]), ("boxed", "lockstep_train_"))
        self.assertEqual(pathlib.Path(f"/proc/{rank['pid']}/status").read_text().split("PPid:\t")[1].split()[0], str(job.pid))
        self.assert_captured()

    def examine(self, pid):
        done = self.sandbox.run("doctor", "--pid", pid)
        return done.returncode, done.stdout + done.stderr

    def test_names_the_missing_parts_in_a_container(self):
        self.sandbox.start_daemon()
        bare, deaf = self.container("bare"), self.container("deaf")
        bare.mount(self.sandbox.sockets, "/run/mounted")
        deaf.put(self.sandbox.client, str(pathlib.Path(self.CLIENT).parent))
        jobs = {
            "no library": (self.start_job(bare.command(), self.container_env(bare, "/run/mounted/client.sock"), bare),
                           [f"{self.CLIENT} is not visible to it: mount the folder into the container"]),
            "no socket": (self.start_job(deaf.command(), self.container_env(deaf, self.sandbox.socket), deaf),
                          ["the client is loaded, but", f"{self.sandbox.socket} is not visible to it: mount its folder into the container"]),
        }
        rootless = self.container("rootless")
        rootless.put(self.sandbox.client, str(pathlib.Path(self.CLIENT).parent))
        rootless.mount(self.sandbox.sockets, "/run/mounted")
        if subprocess.run(rootless.rootless_command("true"), capture_output=True).returncode == 0:
            jobs["no trust"] = (self.start_job(rootless.rootless_command(), self.container_env(rootless, "/run/mounted/client.sock"), rootless),
                                ["user 0, to whom the folder of /run/mounted/client.sock belongs, does not exist"])
        else:
            print("this user may not become another, or that one not root of a user namespace: a rootless container was not tried")
        for job, _ in jobs.values():
            job.named_pid = None
        wait_until(lambda: "client: loaded" in self.examine(jobs["no socket"][0].pid)[1], "CUDA in the container")
        code, output = self.examine(jobs["no socket"][0].pid)
        self.assertEqual(code, 1, output)
        self.assertIn(f"broken  socket: LOCKSTEP_SOCKET is {self.sandbox.socket}, which is not visible to it", output)
        code, output = self.examine(jobs["no library"][0].pid)
        self.assertEqual(code, 1, output)
        self.assertIn(f"broken  client: not loaded; {self.CLIENT} is not visible to it", output)
        self.assertIn("ok      socket: /run/mounted/client.sock is visible to it", output)
        self.assert_named(jobs)

    def test_an_installation_in_a_container_starts_its_own_daemon(self):
        box = self.container("installed")
        for program in ("lockstep", "lockstepd", "lockstep-aggregator"):
            box.put(BIN / program, "/opt/lockstep/bin")
        box.put(self.sandbox.client, "/opt/lockstep/lib")
        # An outer `lockstep run` leaves paths that exist only on the host.
        env = self.container_env(box, "/tmp/inside/client.sock", **dict.fromkeys(FORWARD, str(self.sandbox.client)))
        job = self.sandbox.start(box.command("/opt/lockstep/bin/lockstep", "run", "--", *box.gpu_program("--steps", "0")), whole_env=env)
        inside = box.command("/opt/lockstep/bin/lockstep", "status", "--format", "json")

        def ranks():
            done = subprocess.run(inside, env=env, capture_output=True, text=True)
            return json.loads(done.stdout)["daemons"][0]["ranks"] if done.returncode == 0 else []

        wait_until(lambda: len(ranks()) == 1, "the rank", lambda: job.output.read_text())
        self.assertEqual(ranks()[0]["pid"], job.pid)
        self.assertIn("daemon at /tmp/inside/client.sock", job.output.read_text())

    def test_refuses_an_invisible_rank_with_the_reason(self):
        daemon = self.sandbox.start(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", self.sandbox.bin / "lockstepd", "--socket",
                                  self.sandbox.socket])
        wait_until(self.sandbox.socket.exists, "the daemon's socket", lambda: daemon.output.read_text())
        job = self.sandbox.start(self.sandbox.lockstep("run", "--", *self.sandbox.gpu_program("--steps", "40")),
                              env={**self.sandbox.gpu_env(), "RANK": "0", "WORLD_SIZE": "1"})
        wait_until(lambda: self.sandbox.status()["warnings"], "a warning")
        (warning,) = self.sandbox.status()["warnings"]
        for words in ("rank 0 (lockstep_train_, pid ", f"pid {job.pid} in its own namespace", "was refused", "hostPID"):
            self.assertIn(words, warning)
        self.assert_trained(job)


if __name__ == "__main__":
    enter_namespace()
    if not os.environ[INSIDE]:
        print("this machine lets neither root nor a user mount in a namespace: containers were not tested")
        del Containers
    unittest.main(verbosity=2, argv=sys.argv[:1] + sys.argv[2:])
