"""Simulates a cluster of one node. Objects from `kubectl apply` become pods of pod_runner.py, as the
controllers of each kind would create them. Namespaces enforce their PodSecurity level. No other function
of the API server is simulated."""
import base64
import json
import pathlib
import shlex
import socket
import subprocess
import sys
import threading

import yaml

import pod_security
from cert_manager import DRIVER, CertManager
from pod_runner import ADDRESS, Node, run
from waiting import wait_until

WITHOUT_PODS = {"ServiceAccount", "PersistentVolumeClaim", "PersistentVolume", "NetworkPolicy", "Role", "RoleBinding", "PriorityClass"}
# A kubectl in the tested user's PATH. It sends its command line to the cluster and prints the answer.
KUBECTL = f"""\
#!{sys.executable}
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as cluster:
    cluster.connect(os.environ["CLUSTER"])
    given = sys.stdin.read() if sys.argv[-1] == "-" or "--from-file=token=/dev/stdin" in sys.argv else ""
    cluster.sendall(json.dumps([sys.argv[1:], os.getcwd(), given]).encode())
    cluster.shutdown(socket.SHUT_WR)
    code, out, err = json.loads(cluster.makefile().read())
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""


class Cluster:
    """`kubectl` is the real program, used for rendering. `programs` is the folder of the user's own
    `lockstep`."""

    def __init__(self, kubectl, images, programs, node_name="gpu-node-1"):
        self.kubectl, self.programs = kubectl, programs
        self.node = Node(node_name)
        self.node.images.update(images)
        self.namespaces, self.pods = {"default": {}}, {}
        self.cert_manager = CertManager(self.node.secrets)
        self.node.drivers[DRIVER] = self.cert_manager.volume
        self.shell = self.node.work / "shell"
        self.shell.mkdir()
        (self.shell / "kubectl").write_text(KUBECTL)
        (self.shell / "kubectl").chmod(0o755)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(self.node.work / "cluster.sock"))
        self.server.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def stop(self):
        self.node.stop()
        self.server.close()

    # ---- commands of the user

    def sh(self, script, folder, check=True, timeout=120):
        env = {"PATH": f"{self.shell}:{self.programs}:/usr/local/bin:/usr/bin:/bin", "HOME": str(folder),
               "CLUSTER": str(self.node.work / "cluster.sock")}
        return run("sh", "-ec", script, env=env, cwd=folder, check=check, timeout=timeout)

    def _serve(self):
        while True:
            try:
                caller, _ = self.server.accept()
            except OSError:
                return
            with caller:
                words, folder, given = json.loads(caller.makefile().read())
                try:
                    answer = self.command(words, pathlib.Path(folder), given)
                except Exception as error:  # The error belongs on the user's terminal.
                    answer = (1, "", f"{type(error).__name__}: {error}\n")
                caller.sendall(json.dumps(answer).encode())

    def command(self, words, folder, given):
        """Executes one command of kubectl, of those that docs/kubernetes.md uses."""
        words = list(words)
        namespace = "default"
        before = words[:words.index("--")] if "--" in words else words
        if "-n" in before:
            at = before.index("-n")
            namespace = words[at + 1]
            del words[at:at + 2]
        if words[0] == "apply":
            option, path = words[1:]
            if option == "-k":
                things = self.rendered(path, folder)
            else:
                things = yaml.safe_load_all(given if path == "-" else (folder / path).read_text())
            # Pods wait for a Secret that is being made.
            in_order = sorted((each for each in things if each), key=lambda each: each["kind"] not in ("Namespace", "Issuer", "Certificate"))
            return 0, "".join(self.apply(each) for each in in_order), ""
        if words[:2] == ["create", "namespace"]:
            return 0, self.apply({"kind": "Namespace", "metadata": {"name": words[2]}}), ""
        if words[:3] == ["create", "secret", "generic"]:
            key, _, source = words[4].removeprefix("--from-file=").partition("=")
            if namespace not in self.namespaces:
                raise KeyError(f"no namespace {namespace}")
            data = given if source == "/dev/stdin" else (folder / source).read_text()
            self.node.secrets[(namespace, words[3])] = {key: data.encode()}
            return 0, f"secret/{words[3]} created\n", ""
        if words[:3] == ["create", "secret", "tls"]:
            files = dict(word.removeprefix("--").split("=") for word in words[4:])
            self.node.secrets[(namespace, words[3])] = {f"tls.{part}": (folder / files[name]).read_bytes()
                                                        for part, name in (("crt", "cert"), ("key", "key"))}
            return 0, f"secret/{words[3]} created\n", ""
        if words[0] == "wait" and words[1] == "--for=condition=Ready":
            return 0, f"{words[2]} condition met\n", ""
        if words[0] == "label":
            name, label = words[2:4]
            key, _, value = label.partition("=")
            self.namespaces[name][key] = value
            return 0, "", ""
        if words[0] == "exec":
            command = words[words.index("--") + 1:]
            done = self.container(namespace, words[1]).exec(*command, check=False)
            return done.returncode, done.stdout, done.stderr
        if words[:2] == ["get", "secret"] and words[3] == "-o" and words[4].startswith("jsonpath={.data."):
            key = words[4].removeprefix("jsonpath={.data.").removesuffix("}").replace("\\.", ".")
            return 0, base64.b64encode(self.node.secrets[(namespace, words[2])][key]).decode(), ""
        if words[0] == "port-forward":
            # All pods and the user's machine share one address.
            self.pod(namespace, words[1])
            return 0, "", ""
        if words[:2] == ["rollout", "status"]:
            self.wait_ready(namespace, words[2])
            return 0, "", ""
        raise ValueError(f"no such command here: kubectl {shlex.join(words)}")

    def rendered(self, path, folder):
        return list(yaml.safe_load_all(run(self.kubectl, "kustomize", folder / path).stdout))

    # ---- actions of the controllers

    def apply(self, thing):
        kind, name = thing["kind"], thing["metadata"]["name"]
        namespace = thing["metadata"].get("namespace", "default")
        if kind == "Namespace":
            self.namespaces.setdefault(name, {}).update(thing["metadata"].get("labels", {}))
        elif kind == "Service":
            for name in (name, f"{name}.{namespace}"):
                self.node.names[name] = ADDRESS
        elif kind in ("DaemonSet", "Deployment"):
            suffix = "x7k2p" if kind == "DaemonSet" else "5d9c7b6f4-q8wzn"
            self.start(f"{name}-{suffix}", namespace, thing["spec"]["template"], f"{kind}/{name}")
        elif kind == "Job":
            for index in range(thing["spec"].get("completions", 1)):
                template = with_metadata(thing["spec"]["template"], {"job-name": name, "batch.kubernetes.io/job-name": name},
                                         {"batch.kubernetes.io/job-completion-index": str(index)})
                self.start(f"{name}-{index}", namespace, template, f"Job/{name}")
        elif kind in ("Issuer", "Certificate"):
            self.cert_manager.apply(thing)
        elif kind == "MPIJob":
            self.start_mpi_job(thing, name, namespace)
        elif kind not in WITHOUT_PODS:
            raise ValueError(f"no controller for {kind} here")
        return f"{kind.lower()}/{name} created\n"

    def start(self, name, namespace, template, owner):
        if namespace not in self.namespaces:
            raise KeyError(f"no namespace {namespace}")
        level = self.namespaces[namespace].get("pod-security.kubernetes.io/enforce", "privileged")
        wrong = pod_security.violations(level, template["spec"])
        if wrong:
            raise PermissionError(f"pods of {owner} violate PodSecurity {level}: {'; '.join(wrong)}")
        self.pods[(namespace, name)] = pod = self.node.start(name, namespace, template)
        self.pods.setdefault((namespace, owner), pod)

    def start_mpi_job(self, job, name, namespace):
        """Acts as MPI operator v2: numbered workers, a launcher with their list, and Open MPI's settings."""
        replicas, slots = job["spec"]["mpiReplicaSpecs"], job["spec"]["slotsPerWorker"]
        workers = [f"{name}-worker-{i}" for i in range(replicas["Worker"]["replicas"])]
        addresses = [f"{worker}.{name}.{namespace}.svc" for worker in workers]
        # The workers' names are not in /etc/hosts. All pods share one network, so that mpirun would take them
        # for itself.
        for worker in workers:
            template = with_metadata(replicas["Worker"]["template"], labels_of(name, "worker"))
            self.start(worker, namespace, template, f"MPIJob/{name}")
        self.node.secrets[(namespace, f"{name}-config")] = {"hostfile": "".join(f"{a} slots={slots}\n" for a in addresses).encode()}
        template = with_metadata(replicas["Launcher"]["template"], labels_of(name, "launcher"))
        template["spec"].setdefault("volumes", []).append({"name": "mpi-job-config", "configMap": {"name": f"{name}-config"}})
        container = template["spec"]["containers"][0]
        container.setdefault("volumeMounts", []).append({"name": "mpi-job-config", "mountPath": "/etc/mpi"})
        container.setdefault("env", []).extend({"name": key, "value": value} for key, value in {
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true", "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
            "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10"}.items())
        self.start(f"{name}-launcher", namespace, template, f"MPIJob/{name}-launcher")

    def pod(self, namespace, name):
        return self.pods[(namespace, name.replace("deploy/", "Deployment/"))]

    def container(self, namespace, name):
        (container,) = self.pod(namespace, name).containers.values()
        return container

    def wait_ready(self, namespace, name):
        """Waits like a kubelet with the startup probe."""
        container = self.container(namespace, name)

        def ready():
            if container.process.poll() is not None:
                raise AssertionError(f"{name} ended with {container.process.returncode}:\n{container.log()}")
            try:
                container.probe("startupProbe")
            except (RuntimeError, IndexError, subprocess.TimeoutExpired) as error:
                self.last_error = str(error)
                return False
            return True
        wait_until(ready, f"{name}'s startup probe", lambda: self.last_error + container.log())
        return container


def labels_of(job, role):
    return {"training.kubeflow.org/job-name": job, "training.kubeflow.org/job-role": role}


def with_metadata(template, labels, annotations=None):
    template = json.loads(json.dumps(template))
    metadata = template.setdefault("metadata", {})
    metadata.setdefault("labels", {}).update(labels)
    metadata.setdefault("annotations", {}).update(annotations or {})
    return template
