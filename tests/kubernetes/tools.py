"""Installs kubectl and helm for the tests as FOLDER/bin. The makers' programs come from an npm package that
contains both, at the version in package-lock.json (docs/decisions/0008-kubernetes-tools-from-npm.md). A
new lock causes a new installation."""
import hashlib
import pathlib
import shutil
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent


def main():
    folder = pathlib.Path(sys.argv[1])
    wanted = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    stamp = folder / "stamp"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder)
    # The package's peer dependencies are for another use of it.
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(["npm", "ci", "--legacy-peer-deps", "--ignore-scripts", "--prefer-offline", *quiet], cwd=folder, check=True)
    (layer,) = folder.glob("node_modules/@aws-cdk/*/lib/layer.zip")
    with zipfile.ZipFile(layer) as archive:
        for name in ("kubectl", "helm"):
            with archive.open(f"{name}/{name}") as packed, open(folder / "bin" / name, "wb") as program:
                shutil.copyfileobj(packed, program)
            (folder / "bin" / name).chmod(0o755)
    shutil.rmtree(folder / "node_modules")
    stamp.write_text(wanted)


if __name__ == "__main__":
    main()
