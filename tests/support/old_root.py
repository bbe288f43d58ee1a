"""A root of an older Debian from its unpacked packages. This build's simulated stack is linked again with
that root's libc and C++ runtime, so that a rank runs there."""
import os
import pathlib
import shlex
import subprocess

from debs import Debs

SHIM = pathlib.Path(__file__).resolve().parent / "old_libc_shim.cc"
RUNTIME = ["libc6", "libgcc-s1", "libstdc++6", "libcrypt1"]
SHELL = ["dash", "coreutils", "libselinux1", "libpcre2-8-0", "libacl1", "libattr1", "libgmp10"]
STACK = ["lib/sim_stack/libcuda.so.1", "lib/sim_stack/libcudart.so.13", "lib/sim_stack/libcupti.so.13", "lib/sim_stack/libnccl.so.2"]
TRIPLET = "x86_64-linux-gnu"


def run(command, **kwargs):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **kwargs)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def make_root(build, suite, root):
    """Unpacks Debian's packages of a release to `root`, with a shell. The packages are kept in the build
    folder."""
    Debs(build / "debs", suite).unpack(["libc6-dev", *RUNTIME, *SHELL], root)
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = pathlib.Path(folder, name)
            # The linker reads absolute links from outside the root, so that they become relative.
            if path.is_symlink() and os.readlink(path).startswith("/"):
                target = os.path.relpath(f"{root}{os.readlink(path)}", folder)
                path.unlink()
                path.symlink_to(target)
    for name in ("proc", "dev", "tmp", "run"):
        (root / name).mkdir(exist_ok=True)


def link_for(root, build, program, out):
    """Links `program` and the simulated stack of the build tree as `out`/NAME with the libraries in `root`."""
    out.mkdir(parents=True)
    shim = out / "shim.o"
    run(["g++", "-fPIC", "-O2", "-c", SHIM, "-o", shim])
    libraries = root / f"usr/lib/{TRIPLET}"
    for target in (*STACK, program):
        # Repeats the link command of this build. The driver is gcc, because it adds no C++ runtime.
        command = run(["ninja", "-C", build, "-t", "commands", target]).splitlines()[-1].removeprefix(": && ").removesuffix(" && :")
        words = shlex.split(command)
        words[0] = "gcc"
        made = out / pathlib.Path(target).name
        words[words.index("-o") + 1] = str(made)
        words = [str(out / pathlib.Path(word).name) if word in STACK else word for word in words]
        run([*words, f"--sysroot={root}", f"-B{libraries}", shim, libraries / "libstdc++.so.6", root / f"lib/{TRIPLET}/libgcc_s.so.1",
             "-lpthread", "-ldl", "-lm", "-lrt", "-Wl,-z,defs"], cwd=build)
    shim.unlink()


def newest_symbol(path):
    """Returns the newest glibc version that a file needs, as (2, 17)."""
    symbols = run(["readelf", "--dyn-syms", "-W", path])
    versions = [tuple(map(int, word.split("_")[1].split("."))) for word in symbols.replace("(", " ").replace("@", " ").split()
                if word.startswith("GLIBC_") and word[6].isdigit()]
    return max(versions, default=(0,))
