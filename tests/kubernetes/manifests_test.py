"""Checks the files of deploy/kubernetes/ and the YAML of docs/kubernetes.md. kubectl's kustomize and helm
render all of them, with equal results. The API accepts each object, and each reference finds its object.
tests/e2e/kubernetes_test.py runs them."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
import pod_security  # noqa: E402
from api_models import problems  # noqa: E402

TOOLS = pathlib.Path(sys.argv[1]).resolve()
KUBERNETES = REPOSITORY / "deploy" / "kubernetes"
CHART = KUBERNETES / "helm" / "lockstep"
EXAMPLES = sorted((KUBERNETES / "examples").glob("*.yaml"))
PAGE = (REPOSITORY / "docs" / "kubernetes.md").read_text()
VERSION = (REPOSITORY / "VERSION").read_text().strip()
HELM_LABELS = {"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart"}


def run(*command, check=True, **kwargs):
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run([str(word) for word in command], text=True, capture_output=True, timeout=60,
                              env={"PATH": "/usr/bin:/bin", "HOME": home}, **kwargs)
    if check and done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def documents(text):
    return [thing for thing in yaml.safe_load_all(text) if thing]


def kustomize(folder):
    return documents(run(TOOLS / "kubectl", "kustomize", folder).stdout)


def helm(*options):
    """Returns the objects that an installation with the page's command would create."""
    words = re.search(r"<!-- helm: install -->\n```sh\n(.*?)```", PAGE, re.S)[1].replace("helm install", "template").split()
    return documents(run(TOOLS / "helm", *words, *options, cwd=REPOSITORY).stdout)


def job_with(component):
    """Returns a user's Job without Lockstep's settings, and the same Job rendered with the component."""
    job = re.search(rf"cat > train/job.yaml <<'END'\n((?:(?!\nEND\n).)*)\nEND\n(?:(?!\nEND\n).)*components/{component}\nEND\n", PAGE, re.S)
    with tempfile.TemporaryDirectory(dir=REPOSITORY / "build") as folder:
        (pathlib.Path(folder) / "job.yaml").write_text(job[1])
        (pathlib.Path(folder) / "kustomization.yaml").write_text(
            f"resources: [job.yaml]\ncomponents: [../../deploy/kubernetes/components/{component}]\n")
        return documents(job[1]), kustomize(folder)


def with_monitors():
    with tempfile.TemporaryDirectory(dir=REPOSITORY / "build") as folder:
        (pathlib.Path(folder) / "kustomization.yaml").write_text(
            "resources: [../../deploy/kubernetes/base]\ncomponents: [../../deploy/kubernetes/components/pod_monitor]\n")
        return kustomize(folder)


def pods(thing):
    """Yields all pod templates in an object."""
    if isinstance(thing, dict):
        if isinstance(thing.get("spec"), dict) and "containers" in thing["spec"]:
            yield thing
        for part in thing.values():
            yield from pods(part)
    elif isinstance(thing, list):
        for part in thing:
            yield from pods(part)


def by_name(things):
    return {(thing["kind"], thing["metadata"].get("namespace"), thing["metadata"]["name"]): thing for thing in things}


def without_helm(thing):
    if isinstance(thing, dict):
        return {key: without_helm(part) for key, part in thing.items() if key not in HELM_LABELS}
    return [without_helm(part) for part in thing] if isinstance(thing, list) else thing


class ObjectsTest(unittest.TestCase):
    def assert_sound(self, things):
        self.assertEqual([p for thing in things for p in problems(thing)], [])
        names = by_name(things)
        self.assertEqual(len(names), len(things), "each once")
        for (kind, namespace, _), thing in names.items():
            self.assertNotEqual(kind, "Secret", "the administrator creates it")
            for pod in pods(thing):
                self.assert_pod(pod["spec"], names, namespace)
            if kind in ("DaemonSet", "Deployment"):
                labels = thing["spec"]["template"]["metadata"]["labels"]
                self.assertLessEqual(thing["spec"]["selector"]["matchLabels"].items(), labels.items())
            if kind in ("Service", "PodMonitor", "NetworkPolicy"):
                self.assert_selects(thing, names, namespace)

    def assert_pod(self, spec, names, namespace):
        volumes = [volume["name"] for volume in spec.get("volumes", [])]
        used = [mount["name"] for c in pod_security.containers(spec) for mount in c.get("volumeMounts", [])]
        self.assertEqual(set(used), set(volumes))
        for volume in spec.get("volumes", []):
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim and claim != "given":
                self.assertIn(("PersistentVolumeClaim", namespace, claim), names)
        if "serviceAccountName" in spec:
            self.assertIn(("ServiceAccount", namespace, spec["serviceAccountName"]), names)
            self.assertIs(spec["automountServiceAccountToken"], False)
        if "priorityClassName" in spec:
            self.assertIn(("PriorityClass", None, spec["priorityClassName"]), names)
        for container in pod_security.containers(spec):
            if container["image"].startswith("lockstep"):
                self.assertEqual(container["image"], f"lockstep:{VERSION}")
            elif not container["image"].startswith("registry.example/"):
                self.assertEqual(container["image"], "my-training:latest")

    def assert_selects(self, thing, names, namespace):
        spec = thing["spec"]
        wanted = spec["selector"] if thing["kind"] == "Service" else (spec.get("selector") or spec["podSelector"])["matchLabels"]
        if "job-name" in wanted:  # set by the Job's controller
            self.assertIn(("Job", namespace, wanted["job-name"]), names)
            return
        found = [pod for (_, place, _), other in names.items() if place == namespace for pod in pods(other)
                 if wanted.items() <= pod["metadata"]["labels"].items()]
        self.assertEqual(len(found), 1, thing["metadata"])
        ports = {port["name"] for c in found[0]["spec"]["containers"] for port in c.get("ports", [])}
        asked = {"Service": [p.get("targetPort") for p in spec.get("ports", [])],
                 "PodMonitor": [e["port"] for e in spec.get("podMetricsEndpoints", [])],
                 "NetworkPolicy": [p["port"] for rule in spec.get("ingress", []) for p in rule["ports"]]}[thing["kind"]]
        self.assertTrue(asked)
        self.assertLessEqual(set(asked), ports)


class Objects(ObjectsTest):
    def test_base_team_and_socket_volume(self):
        for folder in ("base", "overlays/team", "socket_volume"):
            with self.subTest(folder):
                things = kustomize(KUBERNETES / folder)
                self.assert_sound(things)
                self.assertGreater(len(things), 1)
        claim, volume = (by_name(kustomize(KUBERNETES / "socket_volume"))[key] for key in (
            ("PersistentVolumeClaim", "team-a", "lockstep-socket"), ("PersistentVolume", None, "lockstep-socket-team-a")))
        self.assertEqual(claim["spec"]["volumeName"], volume["metadata"]["name"])

    def test_monitors(self):
        things = with_monitors()
        self.assert_sound(things)
        self.assertEqual(sum(thing["kind"] == "PodMonitor" for thing in things), 2)

    def test_examples(self):
        self.assertEqual({path.stem for path in EXAMPLES}, {"job", "jobset", "mpijob", "pytorchjob"})
        for path in EXAMPLES:
            with self.subTest(path.name):
                things = documents(path.read_text())
                self.assert_sound(things)
                found = [pod["spec"] for thing in things for pod in pods(thing)]
                for spec in found:
                    # The MPI launcher is not a rank and mounts nothing.
                    self.assertIn(pod_security.baseline(spec), ([], ["hostPath volume lockstep-socket"]))
                commands = [" ".join(container["command"]) for spec in found for container in spec["containers"]]
                self.assertTrue(any("/opt/lockstep/bin/lockstep run -- " in command for command in commands), commands)
                self.assertTrue(all("lockstep run --" in c or "sshd" in c for c in commands), commands)
                names = [e["name"] for spec in found for c in spec["containers"] for e in c.get("env", [])]
                self.assertIn("LOCKSTEP_JOB", names)

    def test_components_change_only_what_they_document(self):
        for component, level in (("inject", "privileged"), ("inject_in_pod", "restricted")):
            with self.subTest(component):
                (before,), (after,) = job_with(component)
                self.assert_sound([after])
                old, new = (each["spec"]["template"]["spec"]["containers"][0] for each in (before, after))
                self.assertEqual(new["command"], ["/opt/lockstep/bin/lockstep", "run", "--", *old["command"]])
                self.assertEqual(pod_security.violations(level, after["spec"]["template"]["spec"]), [])
                for key in set(old) - {"command"}:
                    self.assertEqual(old[key], new[key])
                was, is_now = (each["spec"]["template"]["spec"] for each in (before, after))
                ours = {"containers", "initContainers", "volumes"}
                self.assertEqual({k: v for k, v in is_now.items() if k not in ours}, {k: v for k, v in was.items() if k not in ours})

    def test_security_levels_equal_the_documentation(self):
        for thing in kustomize(KUBERNETES / "base"):
            for pod in pods(thing):
                if thing["kind"] == "Deployment":
                    self.assertEqual(pod_security.violations("restricted", pod["spec"]), [])
                else:
                    self.assertEqual(sorted(pod_security.baseline(pod["spec"])),
                                     ["hostPID", "hostPath volume sockets", "lockstepd has DAC_READ_SEARCH", "lockstepd has SYS_PTRACE"])
        spaces = {t["metadata"]["name"]: t["metadata"]["labels"] for t in kustomize(KUBERNETES / "base") if t["kind"] == "Namespace"}
        self.assertEqual({name: labels["pod-security.kubernetes.io/enforce"] for name, labels in spaces.items()},
                         {"lockstep": "restricted", "lockstep-daemon": "privileged"})

    def test_finds_errors_in_manifests(self):
        (deployment,) = [t for t in kustomize(KUBERNETES / "base") if t["kind"] == "Deployment"]

        def broken(change):
            thing = json.loads(json.dumps(deployment))
            change(thing, thing["spec"]["template"]["spec"]["containers"][0])
            return " ".join(problems(thing))

        self.assertEqual(broken(lambda t, c: None), "")
        self.assertIn("no field comand", broken(lambda t, c: c.update(comand=[])))
        self.assertIn("is not of type int", broken(lambda t, c: t["spec"].update(replicas="1")))
        self.assertIn("is not of type int", broken(lambda t, c: t["spec"].update(replicas=True)))
        self.assertIn("needs selector", broken(lambda t, c: t["spec"].pop("selector")))
        self.assertIn("is not of type list[str]", broken(lambda t, c: c.update(command="lockstepd")))
        self.assertIn("is not of type str", broken(lambda t, c: c["env"].append({"name": "PORT", "value": 1})))
        (job,) = documents((KUBERNETES / "examples/jobset.yaml").read_text())
        job["spec"]["replicatedJobs"][0]["template"]["spec"]["paralelism"] = 2
        job["spec"]["replicas"] = 2
        message = " ".join(problems(job))
        self.assertIn("no field paralelism", message)
        self.assertIn("'replicas' was unexpected", message)


class Chart(ObjectsTest):
    def test_the_chart_gives_the_same_objects_as_kustomize(self):
        mine = by_name(without_helm(helm()))
        theirs = by_name(kustomize(KUBERNETES / "base"))
        # The namespaces exist before a release is installed.
        theirs = {key: thing for key, thing in theirs.items() if key[0] != "Namespace"}
        self.assertEqual(sorted(map(str, mine)), sorted(map(str, theirs)))
        for key, thing in theirs.items():
            self.assertEqual(mine[key], thing, key)
        monitors = by_name(without_helm(helm("--set", "podMonitor=true")))
        self.assertEqual({k: v for k, v in monitors.items() if k[0] == "PodMonitor"},
                         {k: v for k, v in by_name(with_monitors()).items() if k[0] == "PodMonitor"})

    def test_values_have_their_documented_effect(self):
        def one(options, kind):
            things = helm(*(word for option in options for word in ("--set-json", option)))
            self.assert_sound(things)
            return [thing for thing in things if thing["kind"] == kind]

        def pod(options, kind):
            (thing,) = one(options, kind)
            return thing["spec"]["template"]["spec"]

        image = {"repository": "registry.example/lockstep", "tag": "9", "pullSecrets": [{"name": "pull"}], "pullPolicy": "Always"}
        named = pod([f"image={json.dumps(image)}"], "DaemonSet")
        self.assertEqual(named["containers"][0]["image"], "registry.example/lockstep:9")
        self.assertEqual((named["imagePullSecrets"], named["containers"][0]["imagePullPolicy"]), ([{"name": "pull"}], "Always"))
        self.assertEqual(one(["daemon.enabled=false"], "DaemonSet"), [])
        settings = ['daemon.socketFolder="/run/other"', 'daemon.tolerations=[]', 'daemon.affinity=null', 'tokenSecret="mine"']
        moved = pod(settings, "DaemonSet")
        self.assertEqual(moved["volumes"], [{"name": "sockets", "hostPath": {"path": "/run/other", "type": "DirectoryOrCreate"}},
                                            {"name": "token", "secret": {"secretName": "mine", "defaultMode": 0o400}}])
        self.assertFalse({"tolerations", "affinity"} & set(moved))
        settings = ['daemon.env=[{"name":"LOCKSTEPD_SPOOL_BYTES","value":"256MiB"}]', 'daemon.resources={"limits":{"memory":"2Gi"}}']
        (more,) = pod(settings, "DaemonSet")["containers"]
        self.assertEqual((more["env"][-1]["value"], more["resources"]["limits"]), ("256MiB", {"memory": "2Gi"}))
        (spread,) = one(["daemon.maxUnavailable=3"], "DaemonSet")
        self.assertEqual(spread["spec"]["updateStrategy"]["rollingUpdate"], {"maxUnavailable": 3})
        self.assertEqual(one(["daemon.priority=7"], "PriorityClass")[0]["value"], 7)
        self.assertEqual(one(['daemon.namespace="elsewhere"'], "DaemonSet")[0]["metadata"]["namespace"], "elsewhere")
        (claim,) = one(['aggregator.storage={"size":"1Gi","storageClassName":"fast"}'], "PersistentVolumeClaim")
        self.assertEqual((claim["spec"]["resources"]["requests"], claim["spec"]["storageClassName"]), ({"storage": "1Gi"}, "fast"))
        for option, volume in (("ephemeral=true", {"emptyDir": {}}),
                               ('existingClaim="given"', {"persistentVolumeClaim": {"claimName": "given"}})):
            self.assertEqual(one([f"aggregator.storage.{option}"], "PersistentVolumeClaim"), [])
            self.assertEqual(pod([f"aggregator.storage.{option}"], "Deployment")["volumes"][0], {"name": "captures", **volume})
        self.assertEqual(one(["networkPolicy.enabled=false"], "NetworkPolicy"), [])
        (policy,) = one(['networkPolicy.httpNamespace="prom"'], "NetworkPolicy")
        self.assertIn("prom", json.dumps(policy))

    def test_the_chart_refuses_a_wrong_value(self):
        for option in ("daemon.tolerrations=[]", 'daemon.namespace="No Name"', "podMonitor=3", 'image.pullPolicy="Sometimes"',
                       'daemon.maxUnavailable="0%"', 'aggregator.storage.size="big"'):
            done = run(TOOLS / "helm", "template", "lockstep", CHART, "--set-json", option, check=False)
            self.assertNotEqual(done.returncode, 0, option)
            self.assertIn("schema", done.stderr, option)

    def test_lint(self):
        run(TOOLS / "helm", "lint", "--strict", CHART)

    def test_the_release_is_stated_once(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        self.assertEqual((chart["version"], chart["appVersion"]), (VERSION, VERSION))
        others = [KUBERNETES / "image/Containerfile", REPOSITORY / "docs/kubernetes.md"]
        for path in [*KUBERNETES.rglob("kustomization.yaml"), *others, *EXAMPLES]:
            for found in re.findall(r"(?:newTag: |VERSION=|lockstep:)(\d[\w.]*)", path.read_text()):
                self.assertEqual(found, VERSION, path)


class Page(unittest.TestCase):
    def test_every_documented_block_is_tested_or_listed(self):
        blocks = re.findall(r"(<!-- (?:run|helm): [\w-]+ -->\n)?```(\w*)\n(.*?)```", PAGE, re.S)
        self.assertGreater(len(blocks), 8)
        left = [text for marked, _, text in blocks if not marked]
        self.assertEqual(len(left), 1, left)
        self.assertIn("podman build", left[0])
        ran = (REPOSITORY / "tests/e2e/kubernetes_test.py").read_text()
        for name in re.findall(r"<!-- run: ([\w-]+) -->", PAGE):
            self.assertIn(f'"{name}"', ran)

    def test_documented_yaml_is_valid(self):
        texts = re.findall(r"<<'END'\n(.*?)\nEND\n", PAGE, re.S)
        self.assertGreater(len(texts), 3)
        for text in texts:
            for thing in documents(text):
                if thing["kind"] != "Kustomization":
                    self.assertEqual(problems(thing), [])

    def test_documented_files_exist(self):
        for path in re.findall(r"deploy/kubernetes/[\w/.-]*\w", PAGE):
            self.assertTrue((REPOSITORY / path).exists(), path)


if __name__ == "__main__":
    (REPOSITORY / "build").mkdir(exist_ok=True)
    del sys.argv[1:2]
    unittest.main(verbosity=2)
