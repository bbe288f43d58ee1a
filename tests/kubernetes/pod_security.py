"""The rules of Kubernetes' PodSecurity standards that concern these manifests. Returns the reasons why a
level refuses a pod."""

BASELINE_CAPABILITIES = {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
                         "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}
RESTRICTED_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def violations(level, spec):
    if level == "privileged":
        return []
    found = baseline(spec)
    if level == "restricted":
        found += restricted(spec)
    elif level != "baseline":
        raise ValueError(f"no PodSecurity level {level}")
    return found


def containers(spec):
    return [*spec.get("initContainers", []), *spec["containers"]]


def baseline(spec):
    found = [f"{name}" for name in ("hostPID", "hostIPC", "hostNetwork") if spec.get(name)]
    found += [f"hostPath volume {v['name']}" for v in spec.get("volumes", []) if "hostPath" in v]
    for each in containers(spec):
        security = each.get("securityContext", {})
        if security.get("privileged"):
            found.append(f"{each['name']} is privileged")
        for name in set(security.get("capabilities", {}).get("add", [])) - BASELINE_CAPABILITIES:
            found.append(f"{each['name']} has {name}")
        if any(port.get("hostPort") for port in each.get("ports", [])):
            found.append(f"{each['name']} has a host port")
    return found


def restricted(spec):
    pod = spec.get("securityContext", {})
    found = [f"volume {v['name']}" for v in spec.get("volumes", []) if not set(v) - {"name"} <= RESTRICTED_VOLUMES]
    for each in containers(spec):
        name, security = each["name"], each.get("securityContext", {})
        if security.get("allowPrivilegeEscalation") is not False:
            found.append(f"{name} may escalate")
        if "ALL" not in security.get("capabilities", {}).get("drop", []):
            found.append(f"{name} keeps capabilities")
        if set(security.get("capabilities", {}).get("add", [])) - {"NET_BIND_SERVICE"}:
            found.append(f"{name} adds capabilities")
        if not security.get("runAsNonRoot", pod.get("runAsNonRoot")) or security.get("runAsUser", pod.get("runAsUser")) == 0:
            found.append(f"{name} may be root")
        if security.get("seccompProfile", pod.get("seccompProfile", {})).get("type") not in ("RuntimeDefault", "Localhost"):
            found.append(f"{name} has no seccomp profile")
    return found
