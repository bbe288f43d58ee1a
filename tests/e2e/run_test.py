"""`lockstep run` as the contract has it ("How the client gets in"), with real processes on the simulated stack: in a container, with
variables already set, under launchers that drop the environment, with daemons that are not there, die, or must not be trusted.

Mounts in a mount namespace of its own, as root or as a user under `unshare -Urm`."""
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
from launch_room import Container, Room, may_mount  # noqa: E402
from waiting import wait_until  # noqa: E402
from live_job import report_of  # noqa: E402

INSIDE = "LOCKSTEP_TEST_IN_NAMESPACE"
BIN = pathlib.Path(sys.argv[1]).resolve()
TESTING = BIN.parent / "lib"
MPIEXEC = ["mpiexec", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]
FORWARD = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN")


def enter_namespace():
    """Runs this script again where it may mount and chroot. Where it may not, the tests that need it say so."""
    if INSIDE in os.environ:
        return
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for how in (["-m"], ["-Urm"]):
        if may_mount(*how):
            os.environ[INSIDE] = " ".join(how)
            os.execvp("unshare", ["unshare", *how, sys.executable, *sys.argv])
    os.environ[INSIDE] = ""


class RoomTest(unittest.TestCase):
    def setUp(self):
        self.room = Room(BIN)
        self.addCleanup(self.room.close)

    def assert_captured(self, ranks=1):
        done = self.room.run("trace", "--duration", "1s", "-o", self.room.folder / "capture")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = report_of(self.room.folder / "capture")
        self.assertEqual(len(report["ranks"]), ranks)
        self.assertTrue(all(rank["compute_ns"] > 0 for rank in report["ranks"]), report["ranks"])
        return report

    def assert_trained(self, process):
        """To its end, unharmed."""
        self.assertEqual(process.wait(60), 0, process.said.read_text())
        self.assertIn("every sum is right", process.said.read_text())


class Command(RoomTest):
    """What the command sees of its wrapper."""

    def test_exit_codes_are_the_commands_or_a_shells(self):
        script = self.room.folder / "not-executable"
        script.write_text("#!/bin/sh\n")
        for command, code in ((["sh", "-c", "exit 37"], 37), (["no-such-command"], 127), ([script], 126)):
            self.assertEqual(self.room.run("run", "--", *command).returncode, code, command)

    def test_signals_reach_the_command(self):
        trap = self.room.start(self.room.lockstep("run", "--", "sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done"))
        sleeping = self.room.start(self.room.lockstep("run", "--", "sleep", "60"))
        wait_until(lambda: "ready" in trap.said.read_text(), "the trap")
        wait_until(lambda: pathlib.Path(f"/proc/{sleeping.pid}/comm").read_text() == "sleep\n", "the command under the wrapper's pid")
        trap.send_signal(signal.SIGTERM)
        sleeping.kill()
        self.assertEqual(trap.wait(10), 5)
        self.assertEqual(sleeping.wait(10), -signal.SIGKILL)

    def test_bytes_pass_untouched_and_no_pipe_is_held(self):
        data = os.urandom(1 << 20)
        done = self.room.run("run", "--", "sh", "-c", "cat; echo its own >&2", input=data, text=False)
        self.assertEqual(done.stdout, data)
        said = done.stderr.decode().splitlines()
        self.assertEqual(said[-1], "its own")
        self.assertRegex(said[0], "^lockstep: set ")
        self.assertEqual(len(said), 2, said)

    def test_closed_streams_stay_closed(self):
        answer = self.room.folder / "answer"
        look = f'for i in 0 1 2 3 4 5 6; do [ -e /proc/$$/fd/$i ] && open="$open $i"; done; echo "open:$open" > {answer}; exit 37'
        # The daemon is started by the first, found by the second.
        for closed, left in (((0, 1, 2), ""), ((1,), " 0 2")):
            streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            code = subprocess.call(self.room.lockstep("run", "--", "sh", "-c", look), env=self.room.env, **streams,
                                   preexec_fn=lambda closed=closed: [os.close(fd) for fd in closed])
            self.assertEqual((code, answer.read_text()), (37, f"open:{left}\n"))
        self.assertEqual(len(self.room.daemons()), 1)
        for fd in range(3):
            self.assertNotIn(str(self.room.sockets / "start.lock"), os.readlink(f"/proc/{self.room.daemons()[0]}/fd/{fd}"))


class Variables(RoomTest):
    """Somebody else has set them."""

    def start_job(self, *run_args, launcher=(), steps=0, **env):
        return self.room.start([*launcher, *self.room.lockstep("run", *run_args, "--", *self.room.gpu_program("--steps", steps))],
                               env={**self.room.gpu_env(), **env})

    def value_in(self, process, name):
        values = pathlib.Path(f"/proc/{process.pid}/environ").read_bytes().decode().split("\0")
        return dict(v.split("=", 1) for v in values if v).get(name)

    def test_another_cuda_tool_is_left_alone_and_the_rank_captured_by_preload(self):
        tool, says = self.room.folder / "tool.so", self.room.folder / "tool-says"
        subprocess.run(["gcc", "-Wall", "-Werror", "-shared", "-fPIC", "-o", tool, SUPPORT / "injected_tool.c"], check=True)
        job = self.start_job("--preload", CUDA_INJECTION64_PATH=str(tool), INJECTED_TOOL_SAYS=str(says))
        self.room.wait_for_ranks()
        self.assertEqual(self.value_in(job, "CUDA_INJECTION64_PATH"), str(tool))
        self.assertIn(f"CUDA_INJECTION64_PATH is set already ({tool}) and left alone", job.said.read_text())
        self.assertEqual(says.read_text(), "called\n")
        self.assert_captured()

    def test_nvtx_and_nccl_tools_are_chained_and_both_see_the_calls(self):
        plugin, nvtx = (TESTING / f"liblockstep_sim_nccl_test_{name}.so" for name in ("plugin", "nvtx_tool"))
        saw = {name: self.room.folder / name for name in ("plugin", "nvtx")}
        # Alone in its world a rank has no collective to match.
        job = self.start_job(launcher=MPIEXEC, steps=40, NCCL_PROFILER_PLUGIN=str(plugin), NVTX_INJECTION64_PATH=str(nvtx),
                             LOCKSTEP_TEST_PLUGIN_MASK="2", LOCKSTEP_TEST_PLUGIN_OUT=str(saw["plugin"]), LOCKSTEP_TEST_NVTX_OUT=str(saw["nvtx"]))
        self.room.wait_for_ranks(2)
        report = self.assert_captured(ranks=2)
        self.assertGreater(report["capture"]["matching"]["by"]["nccl_seq"], 0, report["capture"]["matching"])
        # The tools write their last lines at the program's end.
        self.assert_trained(job)
        self.assertIn("\nstart ", saw["plugin"].read_text())
        self.assertIn("push ncclAllReduce", saw["nvtx"].read_text())
        for name, path in (("NVTX_INJECTION64_PATH", nvtx), ("NCCL_PROFILER_PLUGIN", plugin)):
            self.assertIn(f"{name} was {path}: Lockstep goes before it", job.said.read_text())

    def test_what_is_set_is_kept_and_named_in_a_line_each(self):
        preload = str(self.room.stack / "libcuda.so.1")
        done = self.room.run("run", "--", "env", env={"KINETO_USE_DAEMON": "0", "CUDA_INJECTION64_PATH": "/opt/other.so",
                                                      "NCCL_PROFILER_PLUGIN": "none", "LD_PRELOAD": preload})
        seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        kept = {"KINETO_USE_DAEMON": "0", "CUDA_INJECTION64_PATH": "/opt/other.so", "NCCL_PROFILER_PLUGIN": "none",
                "LD_PRELOAD": preload, "LOCKSTEP_SOCKET": str(self.room.socket)}
        self.assertEqual({name: seen[name] for name in kept}, kept)
        lines = done.stderr.splitlines()
        for name in ("KINETO_USE_DAEMON", "CUDA_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN"):
            self.assertEqual(len([line for line in lines if line.startswith(f"lockstep: {name} is set already")]), 1, lines)
        self.assertEqual(lines[-1], f"lockstep: set NVTX_INJECTION64_PATH, LOCKSTEP_SOCKET; daemon at {self.room.socket}")
        self.assertEqual(len(lines), 4, lines)


class Daemons(RoomTest):
    def test_eight_at_once_start_one(self):
        ranks = [self.room.start(self.room.lockstep("run", "--", "sleep", "1")) for _ in range(8)]
        self.assertEqual([rank.wait(20) for rank in ranks], [0] * 8)
        self.assertEqual(len(self.room.daemons()), 1)
        self.assertEqual([rank.said.read_text().count(f"daemon at {self.room.socket}") for rank in ranks], [1] * 8)

    def test_a_socket_that_nobody_serves_is_replaced(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
            dead.bind(str(self.room.socket))
        done = self.room.run("run", "--", "true")
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"daemon at {self.room.socket}", done.stderr)
        self.assertEqual(len(self.room.daemons()), 1)

    def test_a_folder_that_others_may_change_is_refused_by_name(self):
        def refused(why):
            done = self.room.run("run", "--", "echo", "ran")
            self.assertEqual((done.returncode, done.stdout), (0, "ran\n"))
            self.assertIn(str(self.room.socket), done.stderr)
            self.assertIn(why, done.stderr)
            self.assertIn("the command runs without Lockstep", done.stderr)
            self.assertEqual(self.room.daemons(), [])

        self.room.sockets.chmod(0o770)
        refused("writable for group or others")
        self.room.sockets.chmod(0o700)
        try:
            os.chown(self.room.sockets, os.geteuid() + 54321, -1)
        except OSError as error:
            print(f"a folder of another user was not tried: {error}")
            return
        refused("belongs to another user")
        os.chown(self.room.sockets, os.geteuid(), -1)

    def test_ranks_come_back_to_the_daemon_that_follows_one_that_died(self):
        # Without its last words: the socket stays behind.
        job = self.room.start(self.room.lockstep("run", "--", *self.room.gpu_program("--steps", "0")), env=self.room.gpu_env())
        pid = self.room.wait_for_ranks()[0]["pid"]
        self.assertEqual(pid, job.pid)
        done = self.room.run("doctor", "--pid", pid)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for words in (f"client: loaded from {self.room.client}, by CUDA_INJECTION64_PATH", "libcudart: ", "libnccl: ",
                      f"{self.room.socket} has it as rank 0"):
            self.assertIn(f"ok      {words}" if "rank" not in words else words, done.stdout)
        self.room.end_daemons(signal.SIGKILL)
        self.assertTrue(stat.S_ISSOCK(self.room.socket.stat().st_mode))
        self.assertIsNone(job.poll())
        self.assertEqual(self.room.run("run", "--", "true").returncode, 0)
        self.assertEqual([rank["pid"] for rank in self.room.wait_for_ranks()], [pid])
        self.assert_captured()


class Unreached(RoomTest):
    """Ranks that are told of a daemon and do not come: unharmed, and named after ten seconds."""

    def start_job(self, before, env=None, container=None):
        """Under its own launcher; 14 s of work, so that status has an answer before it ends."""
        program = (container or self.room).gpu_program("--steps", "35", "--matmuls", "20")
        return self.room.start([*before, *program], whole_env={**self.room.env, **(env or {})})

    def assert_named(self, jobs):
        """`jobs`: by name, a process and what status has to say of it. All run at once, the wait is the same."""
        began = time.monotonic()
        wait_until(lambda: all(self.room.warnings_of(job.named_pid or job.pid) for job, _ in jobs.values()), "every warning",
                   lambda: json.dumps(self.room.status(), indent=1) + "".join(job.said.read_text() for job, _ in jobs.values()), 25)
        self.assertGreater(time.monotonic() - began, 5, "a young process may still come")
        for name, (job, says) in jobs.items():
            with self.subTest(name):
                warnings = self.room.warnings_of(job.named_pid or job.pid)
                self.assertEqual(len(warnings), 1, warnings)
                for words in says:
                    self.assertIn(words, warnings[0])
        for job, _ in jobs.values():
            self.assert_trained(job)


def dropping(room, **left):
    """`env -i`, with what the program itself needs."""
    return ["env", "-i", *(f"{name}={value}" for name, value in room.gpu_env(**left).items())]


class Launchers(Unreached):
    def test_ranks_whose_launcher_drops_the_environment_run_and_are_named(self):
        srun = self.room.folder / "srun"
        srun.write_text("#!/bin/sh\n# srun --export=NONE: the step gets Slurm's variables and nothing of the caller's.\n" +
                        "exec " + " ".join(dropping(self.room, SLURM_PROCID="0")) + ' "$@"\n')
        launcher = self.room.folder / "launcher"
        launcher.write_text("#!/bin/sh\n# As mpiexec does, a child per rank; as sudo does, with another environment.\n" +
                            " ".join(dropping(self.room)) + ' "$@" &\necho child $!\nwait $!\n')
        for script in (srun, launcher):
            script.chmod(0o755)
        run = self.room.lockstep("run", "--")
        remedy = "put `lockstep run --` directly before the program"
        jobs = {
            "env -i": (self.start_job([*run, *dropping(self.room)]), ["what `lockstep run` became has dropped", remedy]),
            "srun": (self.start_job([*run, srun]), ["rank 0 (pid", remedy]),
            "a child": (self.start_job([*run, launcher]), ["a launcher below launcher (pid", remedy]),
            # What sshd or a daemon of the launcher starts has no ancestor that knows Lockstep.
            "ssh": (self.start_job(dropping(self.room, OMPI_COMM_WORLD_RANK="0")), ["rank 0 (pid", "no `lockstep run` told it", remedy]),
        }
        for job, _ in jobs.values():
            job.named_pid = None
        child = jobs["a child"][0]
        wait_until(lambda: "child " in child.said.read_text(), "the launcher's child")
        child.named_pid = int(child.said.read_text().split("child ")[1].split()[0])
        self.assert_named(jobs)
        # Nobody of them was told by environment: the daemon lived on because one of them had asked for it.
        self.assertEqual(len(self.room.daemons()), 1)

    def test_one_wrapper_around_mpiexec_is_enough_on_one_node(self):
        work = self.room.gpu_program("--steps", "0")
        job = self.room.start(self.room.lockstep("run", "--", *MPIEXEC, *work), env=self.room.gpu_env())
        ranks = self.room.wait_for_ranks(2)
        self.assertEqual(sorted(rank["rank"] for rank in ranks), [0, 1])
        self.assertEqual({rank["rank_source"] for rank in ranks}, {"OMPI"})
        job.terminate()
        job.wait(20)


class Containers(Unreached):
    CLIENT = "/opt/elsewhere/liblockstep_client.so"

    def container(self, name):
        return Container(self.room, name)

    def told(self, container, socket_path, **more):
        """What `docker run -e` would hand on."""
        return {**container.gpu_env(LOCKSTEP_SOCKET=str(socket_path), **dict.fromkeys(FORWARD, self.CLIENT)), **more}

    def test_a_rank_with_library_and_socket_at_other_places_is_captured(self):
        self.room.start_daemon()
        box = self.container("whole")
        box.put(self.room.client, str(pathlib.Path(self.CLIENT).parent))
        box.mount(self.room.sockets, "/run/mounted")
        env = self.told(box, "/run/mounted/client.sock", RANK="0", WORLD_SIZE="1", LOCKSTEP_JOB="boxed")
        # A pid namespace of its own is no hindrance while the daemon is in one above.
        job = self.room.start(box.command(*box.gpu_program("--steps", "0"), namespaces=("--mount", "--pid", "--fork", "--kill-child")),
                              whole_env=env)
        rank = self.room.wait_for_ranks()[0]
        self.assertEqual((rank["job"], rank["program"]), ("boxed", "lockstep_train_"))
        self.assertEqual(pathlib.Path(f"/proc/{rank['pid']}/status").read_text().split("PPid:\t")[1].split()[0], str(job.pid))
        self.assert_captured()

    def examine(self, pid):
        done = self.room.run("doctor", "--pid", pid)
        return done.returncode, done.stdout + done.stderr

    def test_what_is_missing_in_the_container_is_named(self):
        self.room.start_daemon()
        bare, deaf = self.container("bare"), self.container("deaf")
        bare.mount(self.room.sockets, "/run/mounted")
        deaf.put(self.room.client, str(pathlib.Path(self.CLIENT).parent))
        jobs = {
            "no library": (self.start_job(bare.command(), self.told(bare, "/run/mounted/client.sock"), bare),
                           [f"{self.CLIENT} is not there for it: mount the folder into the container"]),
            "no socket": (self.start_job(deaf.command(), self.told(deaf, self.room.socket), deaf),
                          ["the client is loaded, but", f"{self.room.socket} is not there for it: mount its folder into the container"]),
        }
        rootless = self.container("rootless")
        rootless.put(self.room.client, str(pathlib.Path(self.CLIENT).parent))
        rootless.mount(self.room.sockets, "/run/mounted")
        if subprocess.run(rootless.rootless_command("true"), capture_output=True).returncode == 0:
            jobs["no trust"] = (self.start_job(rootless.rootless_command(), self.told(rootless, "/run/mounted/client.sock"), rootless),
                                ["user 0, to whom the folder of /run/mounted/client.sock belongs, does not exist"])
        else:
            print("this user may not become another, or that one not root of a user namespace: a rootless container was not tried")
        for job, _ in jobs.values():
            job.named_pid = None
        wait_until(lambda: "client: loaded" in self.examine(jobs["no socket"][0].pid)[1], "CUDA in the container")
        code, said = self.examine(jobs["no socket"][0].pid)
        self.assertEqual(code, 1, said)
        self.assertIn(f"broken  socket: LOCKSTEP_SOCKET is {self.room.socket}, which is not there for it", said)
        code, said = self.examine(jobs["no library"][0].pid)
        self.assertEqual(code, 1, said)
        self.assertIn(f"broken  client: not loaded; {self.CLIENT} is not there for it", said)
        self.assertIn("ok      socket: /run/mounted/client.sock is there for it", said)
        self.assert_named(jobs)

    def test_the_whole_installation_inside_starts_a_daemon_of_its_own(self):
        box = self.container("installed")
        for program in ("lockstep", "lockstepd", "lockstep-aggregator"):
            box.put(BIN / program, "/opt/lockstep/bin")
        box.put(self.room.client, "/opt/lockstep/lib")
        # As an outer `lockstep run` leaves them: paths that only the host has.
        env = self.told(box, "/tmp/inside/client.sock", **dict.fromkeys(FORWARD, str(self.room.client)))
        job = self.room.start(box.command("/opt/lockstep/bin/lockstep", "run", "--", *box.gpu_program("--steps", "0")), whole_env=env)
        inside = box.command("/opt/lockstep/bin/lockstep", "status", "--format", "json")

        def ranks():
            done = subprocess.run(inside, env=env, capture_output=True, text=True)
            return json.loads(done.stdout)["daemons"][0]["ranks"] if done.returncode == 0 else []

        wait_until(lambda: len(ranks()) == 1, "the rank", lambda: job.said.read_text())
        self.assertEqual(ranks()[0]["pid"], job.pid)
        self.assertIn("daemon at /tmp/inside/client.sock", job.said.read_text())

    def test_a_rank_that_the_daemon_cannot_see_is_refused_with_the_reason(self):
        daemon = self.room.start(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", self.room.bin / "lockstepd", "--socket",
                                  self.room.socket])
        wait_until(self.room.socket.exists, "the daemon's socket", lambda: daemon.said.read_text())
        job = self.room.start(self.room.lockstep("run", "--", *self.room.gpu_program("--steps", "40")),
                              env={**self.room.gpu_env(), "RANK": "0", "WORLD_SIZE": "1"})
        wait_until(lambda: self.room.status()["warnings"], "a warning")
        (warning,) = self.room.status()["warnings"]
        for words in ("rank 0 (lockstep_train_, pid ", f"pid {job.pid} to itself", "was refused", "hostPID"):
            self.assertIn(words, warning)
        self.assert_trained(job)


if __name__ == "__main__":
    enter_namespace()
    if not os.environ[INSIDE]:
        print("this machine lets neither root nor a user mount in a namespace: containers were not tested")
        del Containers
    unittest.main(verbosity=2, argv=sys.argv[:1] + sys.argv[2:])
