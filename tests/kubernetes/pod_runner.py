"""Runs pods on this machine as a kubelet would, to test manifests without a cluster: volumes, init
containers, command, environment, security context, namespaces. An unknown field is an error, so that no
manifest passes because a field was ignored. Some fields are known to have no meaning here.

Needs root. `enter` runs the calling script again as the first process of new namespaces, so that all its
processes end with it."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid

from container_init import CAPABILITIES
from waiting import wait_until

INSIDE = "LOCKSTEP_TEST_IN_NODE"
ADDRESS = "10.79.0.1"
INIT = pathlib.Path(__file__).with_name("container_init.py")
# Capabilities that containerd and CRI-O give to a container by default.
DEFAULT_CAPABILITIES = {"CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
                        "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"}
HONOURED = {
    "pod": {"containers", "initContainers", "volumes", "hostPID", "securityContext"},
    "container": {"name", "image", "command", "args", "env", "volumeMounts", "securityContext", "workingDir", "startupProbe",
                  "readinessProbe", "livenessProbe"},
    "pod security": {"runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup"},
    "security": {"runAsUser", "runAsGroup", "runAsNonRoot", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"},
    "mount": {"name", "mountPath", "subPath", "readOnly"},
    "volume": {"name", "emptyDir", "hostPath", "secret", "persistentVolumeClaim", "configMap", "csi"},
}
# Fields for the scheduler and the API server, and fields that need a second network or cgroups.
WITHOUT_MEANING = {
    "pod": {"nodeSelector", "affinity", "tolerations", "priorityClassName", "serviceAccountName", "automountServiceAccountToken",
            "enableServiceLinks", "terminationGracePeriodSeconds", "restartPolicy", "subdomain"},
    "container": {"resources", "imagePullPolicy", "ports"},
    "pod security": {"seccompProfile", "fsGroupChangePolicy"},
    "security": {"seccompProfile"},
    "mount": set(),
    "volume": set(),
}


def enter():
    """Returns only inside the namespaces. Exits with 77, ctest's "skipped", if they are not available."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if os.environ.get(INSIDE):
        run("mount", "--make-rprivate", "/")
        run("mount", "-t", "tmpfs", "-o", "mode=755", "none", "/mnt")
        # Open MPI needs an interface besides the loopback.
        for words in ("link set lo up", "link add node0 type veth peer name node1", f"addr add {ADDRESS}/24 dev node0", "link set node0 up",
                      "link set node1 up"):
            run("ip", *words.split())
        return
    how = ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--mount-proc", "--kill-child"]
    probe = ("mount -t tmpfs none /mnt && mkdir /mnt/u /mnt/w /mnt/r && "
             "mount -t overlay -o lowerdir=/bin,upperdir=/mnt/u,workdir=/mnt/w none /mnt/r")
    if os.geteuid() != 0 or subprocess.run([*how, "sh", "-c", probe], capture_output=True).returncode != 0:
        print("not tested: needs root, and namespaces and overlays of its own")
        sys.exit(77)
    os.environ[INSIDE] = "1"
    sys.exit(subprocess.run([*how, sys.executable, *sys.argv]).returncode)


def run(*command, check=True, **kwargs):
    done = subprocess.run([str(word) for word in command], **{"text": True, "capture_output": True, "timeout": 120, **kwargs})
    if check and done.returncode != 0:
        raise RuntimeError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def known(kind, fields):
    strange = set(fields) - HONOURED[kind] - WITHOUT_MEANING[kind]
    if strange:
        raise ValueError(f"this runner does not know what {', '.join(sorted(strange))} of a {kind} means")
    return fields


class Image:
    """Root folders, with the uppermost first, and the environment of a Containerfile."""

    def __init__(self, *layers, env=None):
        self.layers, self.env = [str(layer) for layer in layers], env or {}

    @staticmethod
    def build(containerfile, context, into):
        """Builds an image. It supports only the instructions of deploy/kubernetes/image/Containerfile."""
        values, image = {}, None
        for line in containerfile.read_text().splitlines():
            word, _, rest = re.sub(r"\$\{(\w+)\}", lambda m: values[m[1]], line).partition(" ")
            if not word or word.startswith("#"):
                continue
            if word == "FROM" and rest == "scratch":
                into.mkdir()
                image = Image(into)
            elif word == "ARG":
                name, _, default = rest.partition("=")
                values[name] = default
            elif word == "COPY":
                source, target = rest.split()
                shutil.copytree(context / source, into / target.lstrip("/"), symlinks=True, dirs_exist_ok=True)
            elif word == "ENV":
                name, _, value = rest.partition("=")
                image.env[name] = value
            else:
                raise ValueError(f"{containerfile}: {word} is not built here")
        return image


class Node:
    """One node: images, secrets, and hostPaths in a folder of its own. It shares the calling script's process
    namespace."""

    def __init__(self, name):
        self.name = name
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="node", dir="/mnt"))
        self.work.chmod(0o755)
        self.images, self.secrets, self.claims, self.pods = {}, {}, {}, []
        self.drivers = {}  # name of a CSI driver -> function of a volume's attributes and its pod, which returns the files
        self.host = self.work / "host"
        (self.host / "run").mkdir(parents=True)
        # Names that the cluster's DNS would resolve.
        self.names = {"localhost": "127.0.0.1"}

    def start(self, name, namespace, template):
        """Starts a pod from a template: its init containers one after the other, then its containers."""
        pod = Pod(self, name, namespace, template)
        self.pods.append(pod)
        pod.start()
        return pod

    def stop(self):
        for pod in self.pods:
            pod.end(15)
        for pod in reversed(self.pods):
            pod.stop()

    def hosts(self):
        return "".join(f"{address} {name}\n" for name, address in self.names.items())

    def host_path(self, volume):
        path = self.host / volume["path"].lstrip("/")
        kind = volume.get("type", "")
        if kind == "DirectoryOrCreate":
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        elif kind not in ("", "Directory"):
            raise ValueError(f"hostPath type {kind} is not made here")
        if not path.is_dir():
            raise FileNotFoundError(f"hostPath {volume['path']} is not there")
        return path


class Pod:
    def __init__(self, node, name, namespace, template):
        self.node, self.name, self.namespace = node, name, namespace
        self.template = template
        self.spec = known("pod", template["spec"])
        self.uid = str(uuid.uuid4())
        self.work = node.work / f"{namespace}_{name}"
        self.work.mkdir(mode=0o755)
        self.security = known("pod security", self.spec.get("securityContext", {}))
        self.volumes = {}
        self.containers = {}

    def start(self):
        for volume in self.spec.get("volumes", []):
            self.volumes[volume["name"]] = self.make_volume(known("volume", volume))
        for each in self.spec.get("initContainers", []):
            container = Container(self, each)
            code = container.start().wait(60)
            if code != 0:
                raise RuntimeError(f"init container {each['name']} of {self.name}: {code}\n{container.log()}")
        for each in self.spec["containers"]:
            self.containers[each["name"]] = Container(self, each)
            self.containers[each["name"]].start()

    def end(self, how):
        for container in self.containers.values():
            container.end(how)

    def stop(self, patience=5):
        self.end(15)
        for container in self.containers.values():
            try:
                container.process.wait(patience)
            except subprocess.TimeoutExpired:
                container.end(9)
                container.process.wait(10)

    def field(self, path):
        found = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
        if found:
            return self.template["metadata"].get(found[1], {}).get(found[2], "")
        return {"metadata.name": self.name, "metadata.namespace": self.namespace, "metadata.uid": self.uid,
                "spec.nodeName": self.node.name, "status.podIP": ADDRESS}[path]

    # ---- volumes, as the kubelet creates them

    def make_volume(self, volume):
        (kind,) = set(volume) - {"name"}
        source = volume[kind]
        if kind == "hostPath":
            return self.node.host_path(source)
        if kind == "persistentVolumeClaim":
            folder = self.node.claims.setdefault((self.namespace, source["claimName"]), self.node.work / f"claim-{len(self.node.claims)}")
            folder.mkdir(mode=0o755, exist_ok=True)
            self.give_to_group(folder, 0o2775)
            return folder
        folder = self.work / f"volume-{volume['name']}"
        folder.mkdir()
        if kind == "emptyDir":
            folder.chmod(0o777)
            self.give_to_group(folder, 0o2777)
            return folder
        if kind == "csi":
            # The mode of cert-manager's driver. The files belong to root.
            self.write_files(folder, self.node.drivers[source["driver"]](source["volumeAttributes"], self), 0o440)
            return folder
        name = source.get("secretName") or source["name"]
        self.write_files(folder, self.node.secrets[(self.namespace, name)], source.get("defaultMode", 0o644))
        return folder

    def give_to_group(self, path, mode):
        if "fsGroup" in self.security:
            os.chown(path, -1, self.security["fsGroup"])
            path.chmod(mode)

    def write_files(self, folder, files, mode):
        """Writes the files of a secret as links to a folder, which a kubelet replaces as a whole when the
        secret changes."""
        inner = folder / "..2026_01_01_00_00_00.1"
        inner.mkdir()
        (folder / "..data").symlink_to(inner.name)
        for key, value in files.items():
            (inner / key).write_bytes(value)
            (inner / key).chmod(mode)
            self.give_to_group(inner / key, mode | 0o440)
            (folder / key).symlink_to(f"..data/{key}")


class Container:
    def __init__(self, pod, spec):
        self.pod, self.spec = pod, known("container", spec)
        self.image = pod.node.images[spec["image"]]
        self.root = pod.work / f"root-{spec['name']}"
        self.scratch = pod.work / f"scratch-{spec['name']}"
        for folder in (self.root, self.scratch / "upper", self.scratch / "work"):
            folder.mkdir(parents=True)
        self.output = pod.work / f"log-{spec['name']}"
        self.process = None

    def start(self):
        namespaces = ["--mount", "--uts", "--ipc", "--propagation", "private"]
        if not self.pod.spec.get("hostPID"):
            namespaces += ["--pid", "--fork", "--kill-child"]
        with open(self.output, "w") as out:
            self.process = subprocess.Popen(["unshare", *namespaces, *self.init(self.argv(), enter=False)], stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=out, start_new_session=True)
        return self.process

    def end(self, how):
        try:
            if self.process.poll() is None:
                os.kill(self.pid(), how)
        except (ProcessLookupError, FileNotFoundError):
            pass  # it ended in the meantime

    def log(self):
        return self.output.read_text(errors="replace")

    def pid(self):
        """Returns the node's pid of the container's first process. It waits until that process runs the
        container's own program, because mounts are not complete before. Raises ProcessLookupError if the
        container has ended."""
        wait_until(lambda: self.process.poll() is not None or self.runs(), f"{self.spec['name']} starts", self.log)
        if self.process.poll() is not None:
            raise ProcessLookupError(f"{self.spec['name']} has ended: {self.log()}")
        return self.first_process()

    def first_process(self):
        """Returns None until unshare has forked the process."""
        if self.pod.spec.get("hostPID"):
            return self.process.pid
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def runs(self):
        try:
            command = pathlib.Path(f"/proc/{self.first_process()}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            return False  # not forked yet, or it ended in the meantime
        return command[0] not in (b"", b"unshare") and str(INIT).encode() not in command

    def exec(self, *command, check=True, **kwargs):
        """Acts as `kubectl exec`: runs a command in the container's namespaces with its rights."""
        pid = self.pid()
        namespaces = ["--mount", "--uts", "--ipc"] + ([] if self.pod.spec.get("hostPID") else ["--pid"])
        return run("nsenter", "-t", pid, *namespaces, "--", *self.init(command, enter=True), check=check, **kwargs)

    def probe(self, name):
        """Runs a probe and returns its duration in seconds. Raises an error if it fails or exceeds its limit."""
        probe = self.spec[name]
        if set(probe) - {"exec", "periodSeconds", "timeoutSeconds", "failureThreshold"}:
            raise ValueError(f"{name}: {probe}")
        begun = time.monotonic()
        self.exec(*probe["exec"]["command"], timeout=probe.get("timeoutSeconds", 1))
        return time.monotonic() - begun

    def init(self, argv, enter):
        pod, security = self.pod, known("security", self.spec.get("securityContext", {}))
        uid = security.get("runAsUser", pod.security.get("runAsUser", 0))
        gid = security.get("runAsGroup", pod.security.get("runAsGroup", 0))
        if uid == 0 and security.get("runAsNonRoot", pod.security.get("runAsNonRoot", False)):
            raise ValueError(f"{self.spec['name']} is to run as root, and must not")
        spec = {
            "enter": enter, "argv": [str(word) for word in argv], "env": self.environment(), "folder": self.spec.get("workingDir", "/"),
            "root": str(self.root), "image": ":".join(self.image.layers), "scratch": str(self.scratch), "hostname": pod.name,
            "hosts": pod.node.hosts(), "mounts": self.mounts(), "read_only_root": security.get("readOnlyRootFilesystem", False),
            "capabilities": sorted(self.capabilities(security.get("capabilities", {}))), "uid": uid, "gid": gid,
            "groups": [pod.security["fsGroup"]] if "fsGroup" in pod.security else [],
            "no_new_privileges": not security.get("allowPrivilegeEscalation", True),
        }
        return [sys.executable, str(INIT), json.dumps(spec)]

    def capabilities(self, wanted):
        known_names = set(CAPABILITIES)
        kept = set(DEFAULT_CAPABILITIES)
        for name in wanted.get("drop", []):
            kept -= known_names if name == "ALL" else {name}
        added = set(wanted.get("add", []))
        if added - known_names:
            raise ValueError(f"no capabilities: {added - known_names}")
        return kept | added

    def argv(self):
        env = self.environment()
        words = [*self.spec.get("command", []), *self.spec.get("args", [])]
        return [expand(word, env) for word in words]

    def environment(self):
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": self.pod.name, **self.image.env}
        for each in self.spec.get("env", []):
            if "valueFrom" in each:
                (kind,) = each["valueFrom"]
                if kind != "fieldRef":
                    raise ValueError(f"env from {kind}")
                env[each["name"]] = self.pod.field(each["valueFrom"]["fieldRef"]["fieldPath"])
            else:
                env[each["name"]] = expand(each.get("value", ""), env)
        return env

    def mounts(self):
        found = []
        for each in self.spec.get("volumeMounts", []):
            known("mount", each)
            source = self.pod.volumes[each["name"]]
            if "subPath" in each:
                source = (source / each["subPath"]).resolve(strict=True)
            found.append({"path": each["mountPath"], "source": str(source), "read_only": each.get("readOnly", False)})
        return found


def expand(text, env):
    """Replaces $(NAME) by a variable that is defined already. An unknown name is left unchanged."""
    return re.sub(r"\$\((\w+)\)", lambda m: env.get(m[1], m[0]), text)
