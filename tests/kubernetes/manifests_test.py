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


def base_with(component):
    with tempfile.TemporaryDirectory(dir=REPOSITORY / "build") as folder:
        (pathlib.Path(folder) / "kustomization.yaml").write_text(
            f"resources: [../../deploy/kubernetes/base]\ncomponents: [../../deploy/kubernetes/components/{component}]\n")
        return kustomize(folder)


def typed(name, **files):
    """Returns the objects that the commands after <!-- render: NAME --> would apply."""
    block = re.search(rf"<!-- render: {name} -->\n```sh\n(.*?)```", PAGE, re.S)[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "deploy").symlink_to(REPOSITORY / "deploy")
        (folder / "kubectl").write_text(f"#!/bin/sh\n[ \"$1\" = apply ] && exec {TOOLS}/kubectl kustomize \"$3\"\n")
        (folder / "kubectl").chmod(0o755)
        for file, text in files.items():
            (folder / file).write_text(text)
        return documents(run("sh", "-ec", f"PATH=$PWD:$PATH\n{block}", cwd=folder).stdout)


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
            if kind in ("Service", "PodMonitor", "NetworkPolicy") and thing["spec"].get("podSelector") != {}:
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
                self.assert_least_rights(spec, container)
            elif not container["image"].startswith("registry.example/"):
                self.assertEqual(container["image"], "my-training:latest")

    def assert_least_rights(self, spec, container):
        name = container["name"]
        self.assertIn("memory", container["resources"]["limits"], name)
        self.assertTrue({"cpu", "memory"} <= set(container["resources"]["requests"]), name)
        security = container["securityContext"]
        self.assertEqual((security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"], security["capabilities"]["drop"]),
                         (False, True, ["ALL"]), name)
        refused = [reason for reason in pod_security.restricted({"securityContext": spec.get("securityContext", {}), "containers": [container]})]
        # The daemon serves every user.
        self.assertEqual(refused, ["lockstepd adds capabilities", "lockstepd may be root"] if name == "lockstepd" else [])
        if name in ("lockstepd", "aggregator"):
            health = ["/opt/lockstep/bin/lockstep", "health"]
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                self.assertEqual(container[probe]["exec"]["command"][:2], health, name)
        else:
            # Otherwise a pod of class Guaranteed would lose its class.
            self.assertEqual(container["resources"]["requests"], container["resources"]["limits"], name)

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
        things = base_with("pod_monitor")
        self.assert_sound(things)
        self.assertEqual(sum(thing["kind"] == "PodMonitor" for thing in things), 2)

    def test_certificates(self):
        plain = by_name(kustomize(KUBERNETES / "base"))
        for component, source in (("tls", "hostPath"), ("cert_manager", "csi")):
            with self.subTest(component):
                things = base_with(component)
                self.assert_sound(things)
                names = by_name(things)
                for key, variable, kind in ((("Deployment", "lockstep", "lockstep-aggregator"), "LOCKSTEP_AGGREGATOR_TLS_DIR", "secret"),
                                            (("DaemonSet", "lockstep-daemon", "lockstepd"), "LOCKSTEP_TLS_DIR", source)):
                    spec = names[key]["spec"]["template"]["spec"]
                    (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "tls"]
                    self.assertEqual(set(volume), {"name", kind})
                    self.assertIn({"name": variable, "value": "/etc/lockstep/tls"}, spec["containers"][0]["env"])
                    self.assertIn({"name": "tls", "mountPath": "/etc/lockstep/tls", "readOnly": True}, spec["containers"][0]["volumeMounts"])
                others = {"Deployment", "DaemonSet", "Issuer", "Certificate"}
                self.assertEqual({k: v for k, v in names.items() if k[0] not in others}, {k: v for k, v in plain.items() if k[0] not in others})
        for thing in things:
            if thing["kind"] == "Certificate":
                self.assertIn(("Issuer", thing["metadata"]["namespace"], thing["spec"]["issuerRef"]["name"]), names)
        self.assertIn(("Issuer", "lockstep-daemon", volume["csi"]["volumeAttributes"]["csi.cert-manager.io/issuer-name"]), names)
        certificate = names[("Certificate", "lockstep", "lockstep-aggregator")]["spec"]
        self.assertEqual((certificate["uris"], certificate["secretName"]), (["lockstep://aggregator"], "lockstep-tls"))

    def test_an_image_by_digest(self):
        digest = "sha256:" + "4f" * 32
        images = {container["image"] for thing in typed("digest", digest=digest + "\n") for pod in pods(thing)
                  for container in pod_security.containers(pod["spec"])}
        self.assertEqual(images, {f"registry.example/lockstep@{digest}"})

    def test_pods_have_only_the_network_that_they_need(self):
        names = by_name(kustomize(KUBERNETES / "base"))
        policies = {key[1:]: thing["spec"] for key, thing in names.items() if key[0] == "NetworkPolicy"}
        self.assertEqual(set(policies), {("lockstep", "default-deny"), ("lockstep-daemon", "default-deny"), ("lockstep", "lockstep-aggregator"),
                                         ("lockstep-daemon", "lockstepd")})
        for (_, name), spec in policies.items():
            self.assertEqual(spec["policyTypes"], ["Ingress", "Egress"])
            if name == "default-deny":
                self.assertEqual((spec["podSelector"], spec.get("ingress"), spec.get("egress")), ({}, None, None))
        self.assertNotIn("egress", policies[("lockstep", "lockstep-aggregator")])
        (to_aggregator, dns) = policies[("lockstep-daemon", "lockstepd")]["egress"]
        (service,) = [thing["spec"] for key, thing in names.items() if key[0] == "Service"]
        self.assertEqual(to_aggregator["to"][0]["podSelector"]["matchLabels"], service["selector"])
        self.assertIn(to_aggregator["ports"][0]["port"], [port["port"] for port in service["ports"]])
        self.assertEqual({(port["port"], port["protocol"]) for port in dns["ports"]}, {(53, "UDP"), (53, "TCP")})

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
                                     ["hostPID", "hostPath volume sockets", *(f"lockstepd has {c}" for c in ("DAC_READ_SEARCH", "SYS_PTRACE"))])
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
        # The namespaces and their policies exist before a release is installed.
        theirs = {key: thing for key, thing in theirs.items() if key[0] != "Namespace" and key[2] != "default-deny"}
        self.assertEqual(sorted(map(str, mine)), sorted(map(str, theirs)))
        for key, thing in theirs.items():
            self.assertEqual(mine[key], thing, key)
        monitors = by_name(without_helm(helm("--set", "podMonitor=true")))
        self.assertEqual({k: v for k, v in monitors.items() if k[0] == "PodMonitor"},
                         {k: v for k, v in by_name(base_with("pod_monitor")).items() if k[0] == "PodMonitor"})

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
        by_digest = pod([f"image={json.dumps({**image, 'digest': 'sha256:' + '4f' * 32})}"], "Deployment")
        self.assertEqual(by_digest["containers"][0]["image"], "registry.example/lockstep@sha256:" + "4f" * 32)
        self.assertEqual(one(["daemon.enabled=false"], "DaemonSet"), [])
        self.assertEqual(len(one(["daemon.enabled=false"], "NetworkPolicy")), 1)
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
        for policy in one(['networkPolicy.httpNamespace="prom"'], "NetworkPolicy"):
            self.assertIn("prom", json.dumps(policy))
        self.assert_same_certificates_as_the_component(pod)

    def assert_same_certificates_as_the_component(self, pod):
        component = {thing["kind"]: thing["spec"]["template"]["spec"] for thing in base_with("cert_manager") if thing["kind"] in ("Deployment", "DaemonSet")}
        (volume,) = [volume for volume in component["DaemonSet"]["volumes"] if volume["name"] == "tls"]
        values = {"secretName": "lockstep-tls", "daemonVolume": {"csi": volume["csi"]}}
        for kind, theirs in component.items():
            mine = pod([f"tls={json.dumps(values)}"], kind)
            by = {"env": "name", "volumeMounts": "mountPath"}
            for list_of, key in by.items():
                sort = lambda spec: sorted(spec["containers"][0][list_of], key=lambda each: each[key])  # noqa: E731
                self.assertEqual(sort(mine), sort(theirs))
            self.assertEqual(*(sorted(spec["volumes"], key=lambda each: each["name"]) for spec in (mine, theirs)))

    def test_the_chart_refuses_a_wrong_value(self):
        for option in ("daemon.tolerrations=[]", 'daemon.namespace="No Name"', "podMonitor=3", 'image.pullPolicy="Sometimes"',
                       'daemon.maxUnavailable="0%"', 'aggregator.storage.size="big"', 'image.digest="latest"', 'tls.secretName="only-one"'):
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
        blocks = re.findall(r"(<!-- (?:run|helm|render): [\w-]+ -->\n)?```(\w*)\n(.*?)```", PAGE, re.S)
        self.assertGreater(len(blocks), 8)
        left = [text for marked, _, text in blocks if not marked]
        self.assertEqual(len(left), 1, left)
        self.assertIn("./dev image", left[0])
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
