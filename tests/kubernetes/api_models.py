"""Checks whether the Kubernetes API accepts an object. Built-in kinds are compared with the models of Kubernetes'
Python client, more strictly than the client does. Each field must be known and have the right type, and no
required field may be missing. Other kinds are compared with the schemas beside this file, and their pods with the
models."""
import json
import pathlib
import re

import jsonschema
from kubernetes import client
from kubernetes.client import Configuration

HERE = pathlib.Path(__file__).resolve().parent
BUILT_IN = {("v1", "Namespace"): "V1Namespace", ("v1", "ServiceAccount"): "V1ServiceAccount", ("v1", "Service"): "V1Service",
            ("v1", "PersistentVolume"): "V1PersistentVolume", ("v1", "PersistentVolumeClaim"): "V1PersistentVolumeClaim",
            ("apps/v1", "DaemonSet"): "V1DaemonSet", ("apps/v1", "Deployment"): "V1Deployment", ("batch/v1", "Job"): "V1Job",
            ("scheduling.k8s.io/v1", "PriorityClass"): "V1PriorityClass", ("networking.k8s.io/v1", "NetworkPolicy"): "V1NetworkPolicy",
            ("rbac.authorization.k8s.io/v1", "Role"): "V1Role", ("rbac.authorization.k8s.io/v1", "RoleBinding"): "V1RoleBinding"}
# Paths of pods and jobs in other kinds. A * in a path stands for any key or index.
CUSTOM = {("kubeflow.org/v2beta1", "MPIJob"): ("mpijob", {"spec.mpiReplicaSpecs.*.template": "V1PodTemplateSpec"}),
          ("kubeflow.org/v1", "PyTorchJob"): ("pytorchjob", {"spec.pytorchReplicaSpecs.*.template": "V1PodTemplateSpec"}),
          ("jobset.x-k8s.io/v1alpha2", "JobSet"): ("jobset", {"spec.replicatedJobs.*.template": "V1JobTemplateSpec"}),
          ("monitoring.coreos.com/v1", "PodMonitor"): ("podmonitor", {"spec.selector": "V1LabelSelector"}),
          ("cert-manager.io/v1", "Issuer"): ("issuer", {}),
          ("cert-manager.io/v1", "Certificate"): ("certificate", {})}
SIMPLE = {"str": str, "int": int, "bool": bool, "float": (int, float)}
DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
UNCHECKED, CHECKED = Configuration(), Configuration()
UNCHECKED.client_side_validation = False


def problems(thing):
    """Returns a sentence for each problem, with its place."""
    kind = (thing.get("apiVersion"), thing.get("kind"))
    found = list(name_problems(thing))
    if kind in BUILT_IN:
        return found + list(model_problems(thing, BUILT_IN[kind], thing["kind"]))
    if kind not in CUSTOM:
        return found + [f"{kind}: no model and no schema"]
    schema, inner = CUSTOM[kind]
    validator = jsonschema.Draft7Validator(json.loads((HERE / "schemas" / f"{schema}.json").read_text()))
    found += [f"{thing['kind']}.{'.'.join(map(str, e.absolute_path))}: {e.message}" for e in validator.iter_errors(thing)]
    for path, model in inner.items():
        parts = list(at_path(thing, path.split("."), thing["kind"]))
        found += [] if parts else [f"{thing['kind']}.{path} is missing"]
        for place, part in parts:
            found += model_problems(part, model, place)
    return found


def name_problems(thing):
    metadata = thing.get("metadata", {})
    if not DNS_NAME.fullmatch(metadata.get("name", "")) or len(metadata["name"]) > 63:
        yield f"{thing.get('kind')}: no name: {metadata.get('name')}"
    for key, value in metadata.get("labels", {}).items():
        if not isinstance(value, str) or not LABEL_VALUE.fullmatch(value) or len(value) > 63:
            yield f"{metadata['name']}: label {key}: {value}"


def at_path(thing, words, place):
    if not words:
        yield place, thing
    elif words[0] == "*":
        for key, part in (thing.items() if isinstance(thing, dict) else enumerate(thing)):
            yield from at_path(part, words[1:], f"{place}.{key}")
    elif words[0] in thing:
        yield from at_path(thing[words[0]], words[1:], f"{place}.{words[0]}")


def model_problems(value, kind, place):
    inner = re.fullmatch(r"(list\[|dict\(str, )(.+)[\])]", kind)
    if inner:
        is_list = kind.startswith("list")
        if not isinstance(value, list if is_list else dict):
            yield f"{place}: {value!r} is not of type {kind}"
            return
        for key, part in enumerate(value) if is_list else value.items():
            yield from model_problems(part, inner[2], f"{place}.{key}")
    elif kind in SIMPLE:
        if not isinstance(value, SIMPLE[kind]) or (kind == "int" and isinstance(value, bool)):
            yield f"{place}: {value!r} is not of type {kind}"
    elif kind == "object":
        # A number or a text; the model has no more detail.
        if not isinstance(value, (int, str)) or isinstance(value, bool):
            yield f"{place}: {value!r} is neither number nor text"
    else:
        yield from fields_problems(value, getattr(client, kind), place)


def fields_problems(value, model, place):
    if not isinstance(value, dict):
        yield f"{place}: {value!r} is not of type {model.__name__}"
        return
    attributes = {name: attribute for attribute, name in model.attribute_map.items()}
    for name, part in value.items():
        if name not in attributes:
            yield f"{place}: {model.__name__} has no field {name}"
        else:
            yield from model_problems(part, model.openapi_types[attributes[name]], f"{place}.{name}")
    for name, attribute in attributes.items():
        if name not in value and is_required(model, attribute):
            yield f"{place}: {model.__name__} needs {name}"


def is_required(model, attribute):
    probe = model(local_vars_configuration=UNCHECKED)
    probe.local_vars_configuration = CHECKED
    try:
        setattr(probe, attribute, None)
    except ValueError:
        return True
    return False
