"""A Slurm cluster on this machine: munged, slurmctld and two slurmd with their own files. Each node is a set
of namespaces.

Needs root and namespaces. `enter` runs the calling script again as the first process of new ones, so that
all its processes end with it. In them, /etc is a copy, and /opt, /mnt, /run, /var/log, /var/lib,
/var/spool and /home are empty. The tests can therefore use the paths of docs/slurm.md, and the machine
stays unchanged."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import own_namespaces
from waiting import wait_until

INSIDE = "LOCKSTEP_TEST_IN_CLUSTER"
ADDRESS = "10.78.0.1"
USERS = {"alice": 12001, "bob": 12002}
NODES = ("n1", "n2")
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "unshare", "nsenter", "setpriv", "ip", "cc")
SLURM_CONF = f"""\
ClusterName=lockstep
SlurmctldHost=head({ADDRESS})
SlurmUser=root
StateSaveLocation=/mnt/state
SlurmdSpoolDir=/mnt/spool/%n
SlurmctldPidFile=/mnt/slurmctld.pid
SlurmdPidFile=/mnt/slurmd-%n.pid
SlurmctldLogFile=/mnt/slurmctld.log
SlurmdLogFile=/mnt/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1
MpiDefault=none
ReturnToService=2
KillWait=2
PartitionName=batch Nodes=n1,n2 Default=YES OverSubscribe=FORCE:4
NodeName=n1 NodeAddr={ADDRESS} Port=17001 CPUs=8
NodeName=n2 NodeAddr={ADDRESS} Port=17002 CPUs=8
"""


def enter():
    own_namespaces.enter(INSIDE, PROGRAMS, "mount -t tmpfs none /mnt && ip link add probe0 type veth peer name probe1", "./dev install --all")


def run(*command, check=True, timeout=30, **kwargs):
    # Output goes to files, because background processes would keep a pipe open.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=timeout, **kwargs)
        for stream in (out, err):
            stream.seek(0)
        done.stdout, done.stderr = out.read(), err.read()
    if check and done.returncode != 0:
        raise RuntimeError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


# The first process of a node adopts orphaned processes.
FIRST_PROCESS = """
import os, time
while True:
    try:
        os.wait()
    except ChildProcessError:
        time.sleep(0.1)
"""


class Node:
    """A mount, process and host-name namespace with its own /tmp and /run/lockstep."""

    def __init__(self, name):
        self.name = name
        own = (f"hostname {name}; mount -t tmpfs -o mode=1777 none /tmp; mount -t tmpfs -o mode=755 none /run/lockstep; "
               f'exec {sys.executable} -c "$1"')
        self.holder = subprocess.Popen(["unshare", "--mount", "--pid", "--uts", "--fork", "--mount-proc", "--kill-child",
                                        "sh", "-c", own, "sh", FIRST_PROCESS])
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            children = run("pgrep", "-P", self.holder.pid, check=False).stdout.split()
            if children and "python" in pathlib.Path(f"/proc/{children[0]}/comm").read_text():
                self.pid = children[0]
                return
            time.sleep(0.02)
        raise RuntimeError(f"node {name} does not come up")

    def inside(self, *command):
        return ["nsenter", "-t", self.pid, "--mount", "--pid", "--uts", *map(str, command)]

    def sh(self, script, **kwargs):
        """Runs a script as root on this node."""
        return run(*self.inside("sh", "-ec", script), env={**clean_env(), "LOCKSTEP_NODE_ID": self.name}, **kwargs)

    def processes(self):
        """Returns (pid in the node, command) of the node's processes, except the first process and this
        query."""
        lines = self.sh("ps -eo pid,comm --no-headers").stdout.splitlines()
        found = [tuple(line.split(None, 1)) for line in lines]
        return [(pid, command) for pid, command in found if pid != "1" and command not in ("sh", "ps")]


def clean_env():
    return {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8"}


class Cluster:
    """`bin_dir` holds the programs, `slurm_dir` is deploy/slurm. Both are installed as in docs/slurm.md."""

    def __init__(self, bin_dir, slurm_dir):
        self.bin, self.slurm_dir = pathlib.Path(bin_dir), pathlib.Path(slurm_dir)
        self.nodes = {}

    def start(self):
        self._file_systems()
        self._network()
        self._install()
        self._munge()
        pathlib.Path("/etc/slurm/slurm.conf").write_text(SLURM_CONF)
        pathlib.Path("/etc/slurm/plugstack.conf").write_text("")
        for name in ("state", *(f"spool/{node}" for node in NODES)):
            pathlib.Path("/mnt", name).mkdir(parents=True)
        run("slurmctld")
        for name in NODES:
            self.nodes[name] = node = Node(name)
            node.sh(f"slurmd -N {name}")
        wait_until(lambda: run("sinfo", "-h", "-o", "%T %D").stdout.strip() == "idle 2", "two idle nodes", self.logs)

    def _file_systems(self):
        run("mount", "--make-rprivate", "/")
        run("mount", "-t", "tmpfs", "-o", "mode=755", "none", "/mnt")
        shutil.copytree("/etc", "/mnt/etc", symlinks=True, ignore_dangling_symlinks=True)
        run("mount", "--bind", "/mnt/etc", "/etc")
        pathlib.Path("/etc/slurm").mkdir(exist_ok=True)
        for folder in ("/opt", "/home", "/run", "/var/log", "/var/lib", "/var/spool"):
            run("mount", "-t", "tmpfs", "-o", "mode=755", "none", folder)
        for folder in ("/run/munge", "/run/lockstep"):
            pathlib.Path(folder).mkdir(mode=0o755)
        with open("/etc/passwd", "a") as passwd, open("/etc/group", "a") as group:
            for name, uid in USERS.items():
                passwd.write(f"{name}:x:{uid}:{uid}::/home/{name}:/bin/sh\n")
                group.write(f"{name}:x:{uid}:\n")
                home = pathlib.Path("/home", name)
                home.mkdir(mode=0o700)
                os.chown(home, uid, uid)

    def _network(self):
        run("hostname", "head")
        pathlib.Path("/etc/hosts").write_text(f"127.0.0.1 localhost\n{ADDRESS} head {' '.join(NODES)}\n")
        # Slurm resolves names only if an interface besides the loopback exists.
        for words in ("link set lo up", "link add cluster0 type veth peer name cluster1", f"addr add {ADDRESS}/24 dev cluster0",
                      "link set cluster0 up", "link set cluster1 up"):
            run("ip", *words.split())

    def _install(self):
        prefix = pathlib.Path("/opt/lockstep")
        shutil.copytree(self.slurm_dir, prefix / "slurm")
        (prefix / "lib").mkdir()
        for name in ("liblockstep_client.so", "liblockstep_sim_cupti.so"):
            shutil.copy(self.bin.parent / "lib" / name, prefix / "lib" / name)
        (prefix / "bin").mkdir()
        for name in ("lockstep", "lockstepd", "lockstep-aggregator", "lockstep-sim-rank"):
            shutil.copy(self.bin / name, prefix / "bin" / name)

    def _munge(self):
        key = pathlib.Path("/mnt/munge.key")
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        run("munged", f"--key-file={key}", "--socket=/run/munge/munge.socket.2", "--pid-file=/mnt/munged.pid", "--log-file=/mnt/munged.log",
            "--seed-file=/mnt/munged.seed")

    def login(self, user, script, timeout=60, check=True, env=None):
        """Runs a script in a login shell of the user on the head node. A command of Slurm waits for minutes
        if a daemon is down."""
        uid = USERS[user]
        environment = {**clean_env(), "HOME": f"/home/{user}", "USER": user, "LOGNAME": user, **(env or {})}
        return run("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "timeout", timeout, "sh", "-lec", f"cd; {script}",
                   check=check, env=environment, timeout=timeout + 10)

    def root(self, script, **kwargs):
        return run("sh", "-ec", script, env=clean_env(), **kwargs)

    def logs(self):
        files = [*pathlib.Path("/mnt").glob("*.log"), *pathlib.Path("/var/log").glob("lockstep*"), *pathlib.Path("/home/alice").glob("*.out")]
        return "".join(f"\n--- {path}\n{path.read_text(errors='replace')[-2500:]}" for path in files)

