"""Simulates several nodes on this machine. Each is a network, mount, process and host-name namespace with its
own address, boot id, /tmp and /run. /home and /opt are shared, as in a cluster. The users are alice and
bob. `ssh NODE COMMAND` works between nodes, without the caller's environment, as with sshd. Launchers that
start their helpers by ssh need no more.

Needs root. `enter` runs the calling script again as the first process of new namespaces, so that all its
processes end with it."""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
import uuid

import own_namespaces
from slurm_cluster import FIRST_PROCESS, clean_env, run

INSIDE = "LOCKSTEP_TEST_IN_NODES"
USERS = {"alice": 12001, "bob": 12002}
PROGRAMS = ("unshare", "nsenter", "setpriv", "ip", "mpiexec")
SSH_SOCKET = "/opt/sshd.sock"
SSH = """\
#!/usr/bin/python3 -S
# Replaces ssh in tests: the node's root process starts the command as the caller's user, with the caller's streams.
import socket, sys
words = sys.argv[1:]
while words and words[0].startswith("-"):
    words.pop(0)
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect("%s")
    socket.send_fds(server, ["\\0".join([words[0], " ".join(words[1:])]).encode()], [0, 1, 2])
    sys.exit(int(server.recv(16) or b"255"))
""" % SSH_SOCKET


def enter():
    own_namespaces.enter(INSIDE, PROGRAMS, "mount -t tmpfs none /mnt && ip link add probe0 type bridge && ip link add probe1 type veth peer name probe2",
                         "./dev install")


class Node:
    """One node. "head" is the login node and has no ranks."""

    def __init__(self, name, number, boot_ids):
        self.name, self.address = name, f"10.79.0.{number}"
        boot_id = boot_ids / name
        boot_id.write_text(f"{uuid.uuid4()}\n")
        own = (f"hostname {name}; mount -t tmpfs -o mode=1777 none /tmp; mount -t tmpfs -o mode=755 none /run; "
               f"mount --bind {boot_id} /proc/sys/kernel/random/boot_id; "
               f'exec {sys.executable} -c "$1"')
        self.holder = subprocess.Popen(["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--mount-proc", "--kill-child",
                                        "sh", "-ec", own, "sh", FIRST_PROCESS])
        self.pid = self._first_process()
        veth = f"veth-{name}"
        run("ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", self.pid)
        run("ip", "link", "set", veth, "master", "cluster", "up")
        for words in ("link set lo up", f"addr add {self.address}/24 dev eth0", "link set eth0 up"):
            run("nsenter", "-t", self.pid, "--net", "ip", *words.split())

    def _first_process(self):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            children = run("pgrep", "-P", self.holder.pid, check=False).stdout.split()
            if children and "python" in pathlib.Path(f"/proc/{children[0]}/comm").read_text():
                return children[0]
            time.sleep(0.02)
        raise RuntimeError(f"node {self.name} does not come up")

    def inside(self, *command):
        return ["nsenter", "-t", self.pid, "--net", "--mount", "--pid", "--uts", "--ipc", *map(str, command)]

    def as_user(self, user, script):
        """Returns the command line that runs a script in a login shell on the node."""
        uid = 0 if user == "root" else USERS[user]
        return self.inside("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "sh", "-lec", f"cd; {script}")

    def sh(self, user, script, check=True, env=None, timeout=60):
        return run(*self.as_user(user, script), check=check, env=login_env(user, env), timeout=timeout)

    def start(self, user, script, output, env=None):
        """Starts a script in the background. `output` is the file for its output."""
        with open(output, "wb") as out:
            return subprocess.Popen(self.as_user(user, script), stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=login_env(user, env))

    def clear(self):
        """Ends all processes of the node and empties /tmp and /run."""
        every = "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p -gt 1 ] && [ $p != $$ ] && kill -9 $p; done"
        run(*self.inside("sh", "-c", f"{every}; rm -rf /tmp/* /tmp/.[!.]* /run/*; true"), check=False)

    def processes(self):
        """Returns (user id, command line) of the node's processes, except its first process and ps."""
        lines = run(*self.inside("ps", "-eo", "pid,uid,args", "--no-headers"), env=clean_env()).stdout.splitlines()
        found = [line.split(None, 2) for line in lines]
        return [(int(uid), args) for pid, uid, args in found if pid != "1" and not args.startswith("ps -eo")]


def login_env(user, more=None):
    return {**clean_env(), "HOME": f"/home/{user}", "USER": user, "LOGNAME": user, **(more or {})}


class Sshd:
    """Starts commands for `ssh`. The kernel identifies the calling user."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(SSH_SOCKET)
        os.chmod(SSH_SOCKET, 0o666)
        self.socket.listen(64)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            caller, _ = self.socket.accept()
            threading.Thread(target=self._run, args=(caller,), daemon=True).start()

    def _run(self, caller):
        with caller:
            message, streams, _, _ = socket.recv_fds(caller, 1 << 16, 3)
            uid = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
            name, script = message.decode().split("\0")
            user = next((user for user, known in USERS.items() if known == uid), "root")
            child = subprocess.Popen(self.nodes[name].as_user(user, script), stdin=streams[0], stdout=streams[1], stderr=streams[2],
                                     env=login_env(user))
            for stream in streams:
                os.close(stream)
            code = child.wait()
            with contextlib.suppress(BrokenPipeError):  # the caller was killed in the meantime
                caller.send(str(code & 255).encode())


class Nodes:
    """`bin_dir` holds the programs. On the nodes they are in /opt/lockstep."""

    def __init__(self, bin_dir, names=("a", "b")):
        self.bin, self.names, self.given = pathlib.Path(bin_dir), names, []

    def start(self):
        run("mount", "--make-rprivate", "/")
        run("mount", "-t", "tmpfs", "-o", "mode=755", "none", "/mnt")
        self._file_systems()
        for words in ("link set lo up", "link add cluster type bridge", "link set cluster up"):
            run("ip", *words.split())
        (boot_ids := pathlib.Path("/mnt/boot-ids")).mkdir()
        names = ("head", *self.names)
        hosts = "".join(f"10.79.0.{i + 1} {name}\n" for i, name in enumerate(names))
        pathlib.Path("/etc/hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
        self.nodes = {name: Node(name, i + 1, boot_ids) for i, name in enumerate(names)}
        self.sshd = Sshd(self.nodes)

    def _file_systems(self):
        shutil.copytree("/etc", "/mnt/etc", symlinks=True, ignore_dangling_symlinks=True)
        run("mount", "--bind", "/mnt/etc", "/etc")
        for folder in ("/opt/lockstep", "/opt/bin"):
            pathlib.Path("/mnt" + folder).mkdir(parents=True)
        for name in ("bin", "lib"):
            (target := pathlib.Path("/mnt/opt/lockstep", name)).mkdir()
            run("mount", "--bind", self.bin.parent / name, target)
        for folder, at in self.given:
            (target := pathlib.Path("/mnt" + at)).mkdir()
            run("mount", "--bind", folder, target)
        run("mount", "--rbind", "/mnt/opt", "/opt")
        run("mount", "-t", "tmpfs", "-o", "mode=755", "none", "/home")
        pathlib.Path("/home/root").mkdir(mode=0o700)
        with open("/etc/passwd", "a") as passwd, open("/etc/group", "a") as group:
            for name, uid in USERS.items():
                passwd.write(f"{name}:x:{uid}:{uid}::/home/{name}:/bin/sh\n")
                group.write(f"{name}:x:{uid}:\n")
                home = pathlib.Path("/home", name)
                home.mkdir(mode=0o700)
                os.chown(home, uid, uid)
        pathlib.Path("/etc/profile.d/lockstep.sh").write_text("PATH=/opt/lockstep/bin:/opt/bin:$PATH\n")
        ssh = pathlib.Path("/opt/bin/ssh")
        ssh.write_text(SSH)
        ssh.chmod(0o755)

    def __getitem__(self, name):
        return self.nodes[name]

    def give(self, folder, at):
        """Shows a folder of this machine on every node at the path `at`. It must be called before `start`."""
        self.given.append((pathlib.Path(folder), at))

    def end(self, jobs):
        """Ends the processes that `Node.start` returned, and everything else on all nodes."""
        for job in jobs:
            job.kill()
            job.wait(10)
        for node in self.nodes.values():
            node.clear()

    def leftovers(self):
        return {name: found for name, node in self.nodes.items() if (found := node.processes())}


def ranks_of(status):
    """Returns the ranks in the output of `lockstep status --format json`."""
    return [rank for daemon in json.loads(status)["daemons"] for rank in daemon["ranks"]] if status else []
