"""Runs in a container's new namespaces before its program. pod_runner.py starts it. It mounts the container's
file system, gives up rights according to the security context, and executes the command. With "enter" the
mounts exist already; this is `kubectl exec`."""
import ctypes
import json
import os
import pathlib
import subprocess
import sys

PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 38, 24
# In the order of the kernel (linux/capability.h).
CAPABILITIES = """CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST
NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME
SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF
CHECKPOINT_RESTORE""".split()


def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True, capture_output=True)


def mount_point(root, path, source):
    target = root / path.lstrip("/")
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    return target


def build(spec):
    root = pathlib.Path(spec["root"])
    upper = pathlib.Path(spec["scratch"])
    mount("-t", "overlay", "-o", f"lowerdir={spec['image']},upperdir={upper / 'upper'},workdir={upper / 'work'}", "none", root)
    for folder in ("proc", "sys", "dev", "etc", "tmp"):
        (root / folder).mkdir(exist_ok=True)
    mount("-t", "proc", "none", root / "proc")
    mount("-t", "sysfs", "-o", "ro", "none", root / "sys")
    mount("-t", "tmpfs", "-o", "mode=755", "none", root / "dev")
    for device in ("null", "zero", "full", "random", "urandom"):
        (root / "dev" / device).touch()
        mount("--bind", f"/dev/{device}", root / "dev" / device)
    (root / "dev/shm").mkdir()
    mount("-t", "tmpfs", "-o", "mode=1777", "none", root / "dev/shm")
    (root / "etc/hosts").write_text(spec["hosts"])
    # Outer mounts come first, because a mount may be inside another.
    for volume in sorted(spec["mounts"], key=lambda m: m["path"]):
        target = mount_point(root, volume["path"], pathlib.Path(volume["source"]))
        mount("--bind", volume["source"], target)
        if volume["read_only"]:
            mount("-o", "remount,bind,ro", target)
    if spec["read_only_root"]:
        mount("-o", "remount,ro", root)
    subprocess.run(["hostname", spec["hostname"]], check=True)


def drop_privileges(spec):
    libc = ctypes.CDLL(None, use_errno=True)
    last = int(pathlib.Path("/proc/sys/kernel/cap_last_cap").read_text())
    for number in range(last + 1):
        if number >= len(CAPABILITIES) or CAPABILITIES[number] not in spec["capabilities"]:
            if libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "PR_CAPBSET_DROP")
    os.setgroups(spec["groups"])
    os.setresgid(spec["gid"], spec["gid"], spec["gid"])
    os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    if spec["no_new_privileges"] and libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")


def main():
    spec = json.loads(sys.argv[1])
    if not spec["enter"]:
        build(spec)
    # This must happen before /proc is the container's.
    os.chdir(spec["root"])
    os.chroot(".")
    drop_privileges(spec)
    os.chdir(spec["folder"])
    os.umask(0o022)
    os.execvpe(spec["argv"][0], spec["argv"], spec["env"])


if __name__ == "__main__":
    main()
