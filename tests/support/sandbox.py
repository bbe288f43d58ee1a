"""Shared parts of the tests of `lockstep run`: a folder with its own socket, CUDA programs on the simulated
stack, and file systems like a container's."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from waiting import wait_until

# Folders of the host that programs in a container need. None of them contains parts of Lockstep.
FROM_THE_HOST = ["/bin", "/lib", "/lib64", "/usr/bin", "/usr/lib", "/etc/ld.so.cache"]
# Prefixes of variables that the tests must not inherit from their launcher.
NOT_OURS = ("LOCKSTEP_", "OMPI_", "PMIX_", "SLURM_", "NCCL_", "NVTX_", "CUDA_", "KINETO_", "LD_")


class Sandbox:
    """All files are in one folder with a short name, because a socket's path has at most 107 bytes. `bin_dir`
    holds the programs."""

    def __init__(self, bin_dir):
        self.bin = pathlib.Path(bin_dir).resolve()
        self.lib = self.bin.parent / "lib"
        self.stack = self.lib / "sim_stack"
        self.client = self.lib / "liblockstep_client.so"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lk-run-"))
        self.sockets = self.folder / "s"
        self.sockets.mkdir(mode=0o700)
        self.socket = self.sockets / "client.sock"
        self.processes = []
        self.mounts = []
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(NOT_OURS)}
        self.env.update(LOCKSTEP_SOCKET=str(self.socket), XDG_STATE_HOME=str(self.folder / "state"))

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait(10)
        self.end_daemons(signal.SIGTERM)
        for mount in reversed(self.mounts):
            subprocess.run(["umount", "-l", str(mount)], check=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- processes

    def lockstep(self, *words):
        return [str(self.bin / "lockstep"), *map(str, words)]

    def run(self, *words, env=None, **kwargs):
        """Runs a command of `lockstep` to its end. Output is text by default."""
        kwargs = {"text": True, "capture_output": True, "timeout": 60, **kwargs}
        return subprocess.run(self.lockstep(*words), env={**self.env, **(env or {})}, **kwargs)

    def start(self, command, env=None, whole_env=None):
        """Starts a process in the background. `output` is the file of its output."""
        output = self.folder / f"output-{len(self.processes)}"
        with open(output, "wb") as out:
            process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       env={**self.env, **(env or {})} if whole_env is None else whole_env)
        process.output = output
        self.processes.append(process)
        return process

    def start_daemon(self):
        daemon = self.start([self.bin / "lockstepd", "--socket", self.socket])
        wait_until(self.socket.exists, "the daemon's socket")
        return daemon

    def daemons(self, name="lockstepd"):
        """Returns the pids of the daemons of this sandbox; by their brokers' name, those of the brokers."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and (entry / "comm").read_text() == f"{name}\n" and \
                        str(self.folder).encode() in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def end_daemons(self, how):
        # A broker that outlives root's daemon removes its sockets.
        for pid in (*self.daemons("lockstep-broker"), *self.daemons()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        wait_until(lambda: not self.daemons(), "the daemons' end")

    # ---- a program for CUDA and NCCL, alone in its world

    def gpu_env(self, stack=None, **more):
        """Returns the variables that the program itself needs. A launcher that drops Lockstep's variables
        keeps these."""
        return {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(stack or self.stack), "SIMGPU_KERNELS": "*matmul*=20ms", **more}

    def gpu_program(self, *args, program=None, folder=None):
        folder = folder or tempfile.mkdtemp(dir=self.folder)
        return [str(program or self.bin / "lockstep_train_loop"), "--id-file", f"{folder}/id", *map(str, args)]

    # ---- status

    def status(self):
        done = self.run("status", "--format", "json")
        return json.loads(done.stdout)["daemons"][0] if done.returncode == 0 else {"ranks": [], "warnings": [done.stderr]}

    def wait_for_ranks(self, count=1):
        wait_until(lambda: len(self.status()["ranks"]) == count, f"{count} ranks", lambda: json.dumps(self.status(), indent=1))
        return self.status()["ranks"]

    def warnings_of(self, pid):
        return [w for w in self.status()["warnings"] if f"pid {pid}," in w or f"pid {pid} " in w]


class Container:
    """A file system in the sandbox's folder: the host's libraries, /proc, and the files that the test adds."""

    def __init__(self, sandbox, name):
        self.sandbox = sandbox
        self.root = sandbox.folder / name
        for path in FROM_THE_HOST:
            self.mount(path, path)
        (self.root / "tmp").mkdir()
        (self.root / "tmp").chmod(0o1777)
        self.mount("/proc", "/proc")
        self.mount("/dev/null", "/dev/null")
        self.mount("/dev/shm", "/dev/shm")
        for library in sorted(sandbox.stack.iterdir()):
            self.put(library, "/app/lib")
        self.put(sandbox.bin / "lockstep_train_loop", "/app")

    def put(self, path, folder):
        target = self.root / folder.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)

    def mount(self, path, at):
        target = self.root / at.lstrip("/")
        if pathlib.Path(path).is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        subprocess.run(["mount", "--rbind", str(path), str(target)], check=True)
        self.sandbox.mounts.append(target)

    def command(self, *command, namespaces=("--mount",)):
        return ["unshare", *namespaces, "--root", str(self.root), "--wd", "/", "--", *map(str, command)]

    def rootless_command(self, *command):
        """Returns a command that runs like an ordinary user's container: root of a user namespace without the
        machine's root."""
        for folder in (self.sandbox.folder, self.sandbox.sockets):
            folder.chmod(0o755)
        return ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups",
                *self.command(*command, namespaces=("--user", "--map-root-user", "--mount"))]

    def gpu_program(self, *args):
        return self.sandbox.gpu_program(*args, program="/app/lockstep_train_loop", folder="/tmp")

    def gpu_env(self, **more):
        return self.sandbox.gpu_env(stack="/app/lib", **more)


def may_mount(*unshare):
    """Returns whether a process that such an `unshare` starts may mount and chroot."""
    return subprocess.run(["unshare", *unshare, "sh", "-c", "mount -t tmpfs none /tmp && chroot / true"],
                          capture_output=True).returncode == 0
