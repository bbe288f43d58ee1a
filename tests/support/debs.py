"""Unpacks Debian packages without installing them, from another release or in addition to the machine's
packages. apt's own client fetches each package once into the given folder. It needs no root."""
import os
import pathlib
import subprocess

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Debs:
    def __init__(self, folder, suite=None):
        """`suite` is another release, from the machine's mirror. None means the machine's own sources."""
        self.folder = pathlib.Path(folder) / (suite or "machine")
        self.suite = suite

    @staticmethod
    def _mirror():
        """Returns the mirror of the machine's release, without its security updates."""
        done = subprocess.run(["apt-get", "indextargets", "--format", "$(SUITE) $(REPO_URI)", "Created-By: Packages", "Component: main"],
                              capture_output=True, text=True, check=True)
        mirrors = [uri for suite, uri in (line.split() for line in done.stdout.splitlines()) if "security" not in suite and "security" not in uri]
        if not mirrors:
            raise RuntimeError("apt knows no mirror: run `apt-get update`")
        return mirrors[0]

    def _apt(self, command, *words):
        options = ["-o", "APT::Sandbox::User="]
        if self.suite:
            sources = self.folder / "sources.list"
            sources.write_text(f"deb [signed-by={KEYRING}] {self._mirror()} {self.suite} main\n")
            for name in ("lists/partial", "cache/archives/partial"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            (self.folder / "status").touch()
            options += ["-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=/dev/null", "-o", f"Dir::State={self.folder}",
                        "-o", f"Dir::State::status={self.folder / 'status'}", "-o", f"Dir::Cache={self.folder / 'cache'}"]
        done = subprocess.run(["apt-get", "-q", *options, command, *words], cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env={**os.environ, "LC_ALL": "C.UTF-8"})
        if done.returncode != 0:
            raise RuntimeError(f"apt-get {command} {' '.join(words)} ({self.suite or 'this release'}): {done.returncode}; this test needs a "
                               f"package mirror, or these packages in {self.folder}\n{done.stdout}{done.stderr}")

    def _have(self, package):
        return next(self.folder.glob(f"{package}_*.deb"), None)

    def unpack(self, packages, root):
        """Unpacks packages into `root` as dpkg does, but runs none of their scripts."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if missing := [package for package in packages if not self._have(package)]:
            if self.suite:
                self._apt("update")
            self._apt("download", *missing)
        pathlib.Path(root).mkdir(parents=True, exist_ok=True)
        for package in packages:
            # dpkg-deb -x would replace links such as bin -> usr/bin with the archive's folders.
            tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", self._have(package)], check=True, capture_output=True).stdout
            subprocess.run(["tar", "-C", root, "--keep-directory-symlink", "-xf", "-"], input=tar, check=True)
