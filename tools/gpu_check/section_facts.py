"""Reports the machine's properties and CUPTI's behaviour in a PyTorch process."""
import json
import os
import platform
import re

from evidence import last_line, run_logged


def facts(setup, table):
    folder = setup.work / "facts"
    for name, command in (
            ("uname", ["uname", "-a"]), ("cpu", ["lscpu"]), ("memory", ["free", "-m"]), ("shm", ["df", "-h", "/dev/shm", "/tmp"]),
            ("limits", ["bash", "-c", "ulimit -a; ulimit -l; cat /proc/self/cgroup"]), ("os", ["cat", "/etc/os-release"]),
            ("libc", ["ldd", "--version"]), ("mounts", ["cat", "/proc/mounts"]), ("kernel-log", ["dmesg", "-T"]),
            ("driver", ["bash", "-c", "cat /proc/driver/nvidia/version /proc/driver/nvidia/params; ls -l /dev/nvidia*"]),
            ("libraries", ["bash", "-c", "ldconfig -p | grep -E 'cupti|cuda|nccl|nvrtc'"]),
            ("environment", ["bash", "-c", "env | grep -E '^(CUDA|NCCL|NV|LD_|LOCKSTEP|TORCH|KINETO|PYTHON|PATH|HOME|XDG)' | sort"])):
        run_logged(folder, name, command, timeout=10)
    table.machine["host"] = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    table.fact("machine", f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    code, out, err = run_logged(folder, "version", [setup.bundle / "bin" / "lockstep", "--version"])
    table.check("the bundle runs", code == 0, out or err, "its version")
    code, out, err = run_logged(folder, "doctor", [setup.bundle / "bin" / "lockstep", "doctor"])
    notes = "; ".join(line for line in out.splitlines() if not line.startswith("ok"))
    table.check("lockstep doctor", code == 0, notes or last_line(out, err), "nothing broken")
    if setup.simulate:
        return
    code, out, err = run_logged(folder, "gpu", ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap,memory.used,clocks.sm,"
                                                "persistence_mode", "--format=csv,noheader"])
    if table.check("GPU", code == 0, last_line(out, err), "a GPU"):
        table.machine["GPU"] = last_line(out)
    run_logged(folder, "nvidia-smi", ["nvidia-smi", "-q"])
    find_cupti(setup, table, folder)
    torch_facts(setup, table, folder)


def find_cupti(setup, table, folder):
    """Finds CUPTI on this machine. setup.cupti serves programs that have no CUPTI and whose client finds
    none."""
    _, out, _ = run_logged(folder, "cupti-files", ["bash", "-c", "find /usr/local/cuda*/ /usr/lib/x86_64-linux-gnu /opt -name "
                                                   "'libcupti.so*' 2>/dev/null | head -n 40"], timeout=20)
    _, wheels, _ = run_logged(folder, "cupti-wheels", [setup.python, "-c", "import site, glob; [print(p) for d in site.getsitepackages() "
                                                       "for p in glob.glob(d + '/nvidia/**/libcupti.so*', recursive=True)]"])
    found = [line for line in (out + wheels).splitlines() if line.startswith("/")]
    setup.cupti = next((p for p in found if re.search(r"libcupti\.so\.1[23]$", p)), found[0] if found else None)
    table.fact("libcupti on this machine", f"{len(found)}: {', '.join(found[:4]) or 'none'}")


def torch_facts(setup, table, folder):
    for name, extra in (("cupti-in-torch", {}), ("cupti-in-torch-with-kineto-daemon", {"KINETO_USE_DAEMON": "1"})):
        code, out, err = run_logged(folder, name, setup.script("cupti_facts.py"), timeout=90, env={**os.environ, **extra})
        try:
            found = json.loads(out[out.index("{"):])
        except ValueError:
            table.check(name, False, f"exit {code}: {last_line(err, out)}", "a document of facts")
            continue
        if not extra:
            setup.cupti = setup.cupti or found["cupti_path"]
            table.check("PyTorch", "device" in found, f"{found.get('torch')}, NCCL {found.get('nccl')}, {found.get('device')}; import "
                        f"{found.get('torch_import_s')} s, CUDA {found.get('cuda_init_s')} s", "PyTorch with CUDA")
            table.fact("CUPTI", f"{found.get('cupti_version')} at {found.get('cupti_loaded')}")
            table.machine["software"] = f"PyTorch {found.get('torch')}, NCCL {found.get('nccl')}, CUPTI {found.get('cupti_version')}"
            table.fact("record sizes", found.get("record_bytes"))
            table.fact("first enable of the kernel kind", f"{found.get('first_enable_kernel')}, disable {found.get('disable_kernel')}, "
                       f"again {found.get('second_enable_kernel')}, {found.get('second_disable_kernel')}")
            table.fact("telling of devices, contexts and streams", "; ".join(f"{kind} {found.get('enable_and_dump_' + kind)}" for kind in
                                                                             ("device", "context", "stream")))
            table.fact("buffer attributes", found.get("attributes"))
            table.fact("hardware trace on, off", found.get("hardware_trace"))
        table.fact(f"{name}: clock against CLOCK_REALTIME", f"before CUDA {found.get('clock_before_cuda')}, with "
                   f"{found.get('clock_with_cuda')}")
        table.fact(f"{name}: cuptiSubscribe", f"returns {found.get('subscribe')} (0: free, 39: taken)")
