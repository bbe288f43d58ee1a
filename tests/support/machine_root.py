"""A root for package installation that looks like this machine: an overlay over its files, with all changes
in a separate folder. The caller must be allowed to mount (see packages_test.py)."""
import configparser
import hashlib
import os
import pathlib
import re
import shlex
import socket
import subprocess
import tempfile
import time

USER = 4242
# Files that dpkg and the tools for user accounts write, besides the packages' own files.
BOOKKEEPING = re.compile(r"var/lib/dpkg/.*|var/log/.*|var/cache/(ldconfig|man|debconf|apt)/.*|etc/(passwd|group|shadow|gshadow|subuid|subgid)-?"
                         r"|etc/\.pwd\.lock|var/lib/systemd/deb-systemd-helper-(enabled|masked)")


def run(*command, **kwargs):
    return subprocess.run([str(word) for word in command], **{"text": True, "capture_output": True, "timeout": 300, **kwargs})


def output(*command, **kwargs):
    done = run(*command, **kwargs)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Machine:
    """A root that looks like this machine without Lockstep. It has its own /run and /tmp, so that the two do
    not interact."""

    FROM_OUTSIDE = ("proc", "dev")

    def __init__(self, built):
        """`built` is the build tree. Inside the root it is /run/built."""
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="lk-m"))
        self.mounts = []
        self._mount("-t", "tmpfs", "none", self.work)
        for name in ("upper", "work", "root"):
            (self.work / name).mkdir()
        self.upper, self.root = self.work / "upper", self.work / "root"
        self._mount("-t", "overlay", "-o", f"lowerdir=/,upperdir={self.upper},workdir={self.work / 'work'}", "none", self.root)
        for name in ("run", "tmp"):
            self._mount("-t", "tmpfs", "-o", f"mode={'1777' if name == 'tmp' else '755'}", "none", self.root / name)
        for name in self.FROM_OUTSIDE:
            self._mount("--rbind", f"/{name}", self.root / name)
        # The simulated ranks are in no package.
        (self.root / "run/built").mkdir()
        self._mount("--bind", built, self.root / "run/built")
        self.processes = []
        self.whole_root = self._may_become_others()

    def _mount(self, *words):
        output("mount", *words)
        self.mounts.append(words[-1])

    @staticmethod
    def _may_become_others():
        return run("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", "true").returncode == 0

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait(10)
        for mount in reversed(self.mounts):
            subprocess.run(["umount", "-l", mount], check=True)
        self.work.rmdir()

    def enter(self):
        os.chroot(self.root)
        os.chdir("/")

    @staticmethod
    def _environment(env):
        return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "DEBIAN_FRONTEND": "noninteractive",
                "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", **(env or {})}

    def as_user(self, name):
        if not self.whole_root:
            return []
        ids = (str(USER), str(USER)) if name is None else (name, name)
        return ["setpriv", "--reuid", ids[0], "--regid", ids[1], "--clear-groups", "--"]

    def run(self, *command, env=None):
        return run(*command, preexec_fn=self.enter, env=self._environment(env))

    def start(self, *command, env=None):
        output = self.work / f"output-{len(self.processes)}"
        with open(output, "w") as out:
            process = subprocess.Popen([str(word) for word in command], preexec_fn=self.enter, env=self._environment(env),
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        process.output = output
        self.processes.append(process)
        return process

    def start_service(self, unit, user=None):
        """Starts a service as its unit describes it, with its rights only. Waits for READY=1."""
        reader = configparser.RawConfigParser(strict=False)
        reader.read_string((self.root / "usr/lib/systemd/system" / unit).read_text())
        service = reader["Service"]
        assert service["Type"] == "notify"
        ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = self.root / "tmp" / f"notify-{len(self.processes)}"
        ready.bind(str(path))
        path.chmod(0o666)
        ready.settimeout(20)
        env = {"NOTIFY_SOCKET": f"/tmp/{path.name}"}
        before = self.as_user(user) if user else []
        # Takes away the rights that systemd takes away. Another user does not have them.
        if self.whole_root and not user:
            rights = ",".join("+" + name.removeprefix("CAP_").lower() for name in service["CapabilityBoundingSet"].split())
            before = ["setpriv", "--bounding-set", f"-all,{rights}", "--inh-caps", "-all", "--no-new-privs", "--"]
        if "StateDirectory" in service:
            folder = f"/var/lib/{service['StateDirectory']}"
            self.must("install", "-d", "-m", service["StateDirectoryMode"], *(["-o", user, "-g", user] if before else []), folder)
            env["STATE_DIRECTORY"] = folder
        process = self.start(*before, *shlex.split(service["ExecStart"]), env=env)
        with ready:
            try:
                state = ready.recv(100)
            except TimeoutError:
                raise AssertionError(f"{unit} was not ready: {process.output.read_text()}") from None
        assert state == b"READY=1", state
        path.unlink()
        return process

    def must(self, *command, env=None):
        done = self.run(*command, env=env)
        if done.returncode != 0:
            raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def changes(self):
        """Returns the paths that differ from the machine's, except bookkeeping. A removed file appears as a
        device with number 0."""
        found = set()
        for path in self.upper.rglob("*"):
            name = path.relative_to(self.upper).as_posix()
            if (not path.is_dir() or path.is_symlink()) and not BOOKKEEPING.fullmatch(name):
                found.add(name)
            elif path.is_dir() and not path.is_symlink() and not (pathlib.Path("/") / name).exists() and not BOOKKEEPING.fullmatch(name):
                found.add(name + "/")
        return found

    def accounts(self):
        return {name: hashlib.sha256((self.root / "etc" / name).read_bytes()).hexdigest() for name in ("passwd", "group", "shadow", "gshadow")}

    def running(self):
        """Returns the names of Lockstep's processes in this root."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and (entry / "comm").read_text().startswith("lockstep") and os.path.samefile(entry / "root", self.root):
                    found.append((entry / "comm").read_text().strip())
            except OSError:
                continue
        return found


# Makes the machine's root the root of the namespace, mounts the file systems that systemd needs, and executes
# systemd.
BOOT = """
set -e
cd "$1"
mount --make-rprivate /
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 none sys/fs/cgroup 2>/dev/null || mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount -t tmpfs none dev
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
  number=${device#*:}
  mknod -m 666 dev/${device%%:*} c ${number%:*} ${number#*:}
done
ln -s pts/ptmx dev/ptmx
mkdir dev/pts dev/shm run/old
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t tmpfs none dev/shm
ip link set lo up
pivot_root . run/old
cd /
umount -l /run/old
exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=multi-user.target --show-status=no
"""
# Services of the machine that must not start here.
QUIET = re.compile(r".*(getty|timesyncd|udev|networkd|resolved|binfmt|modules|\.timer).*")


class BootedMachine(Machine):
    """A Machine with its own systemd and network."""

    # systemd mounts these itself, because it cannot handle mounts on top of other mounts.
    FROM_OUTSIDE = ()

    def __init__(self, built):
        super().__init__(built)
        etc = self.root / "etc"
        (etc / "machine-id").write_text("")
        (etc / "fstab").write_text("")
        # The machine's policy may forbid services. It must not apply here.
        (self.root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)
        for folder in (etc / "systemd/system", self.root / "lib/systemd/system"):
            for unit in folder.glob("*.wants/*"):
                if QUIET.fullmatch(unit.name):
                    (etc / "systemd/system" / unit.name).unlink(missing_ok=True)
                    (etc / "systemd/system" / unit.name).symlink_to("/dev/null")
        self.init = None

    def boot(self):
        """Returns False if this machine's kernel or container does not allow systemd to run."""
        self.log = self.work / "boot.log"
        with open(self.log, "w") as out:
            self.outer = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--net", "--cgroup",
                                           "sh", "-c", BOOT, "boot", str(self.root)], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.processes.append(self.outer)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.outer.poll() is None:
            children = pathlib.Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text().split()
            self.init = children[0] if children else None
            if self.init and self.run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"):
                return True
            time.sleep(0.5)
        return False

    def boot_log(self):
        return self.log.read_text() if hasattr(self, "log") else ""

    def _inside(self, command):
        return ["nsenter", "-t", self.init, "-m", "-p", "-u", "-i", "-n", "-C", "-r", "-w", "--", *map(str, command)]

    def run(self, *command, env=None):
        return run(*self._inside(command), env=self._environment(env)) if self.init else super().run(*command, env=env)

    def start(self, *command, env=None):
        output = self.work / f"output-{len(self.processes)}"
        with open(output, "w") as out:
            process = subprocess.Popen(self._inside(command), env=self._environment(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        process.output = output
        self.processes.append(process)
        return process
