"""Starts a PostgreSQL server in a temporary folder, on a Unix socket only. It runs as an unprivileged user, because the
server refuses root."""
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile

USER, PASSWORD = "lockstep", "not:a\\secret"
STARTED_SECONDS = 60


def folder_of_programs():
    """Returns the folder of initdb and postgres of the newest installed version, or None."""
    found = [path.parent for path in pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    found += [pathlib.Path(path).parent for path in [shutil.which("initdb")] if path]
    number = re.compile(r"\d+")
    return max(found, key=lambda path: int((number.findall(str(path)) or ["0"])[0]), default=None)


class PostgresqlServer:
    """`environment` has what a client needs besides the URL: the file with the password."""

    def __init__(self):
        self.programs = folder_of_programs()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lk-pg-"))
        self.rights = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            self.rights = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)  # in a folder that is closed to others
        self.run("initdb", "-D", self.folder / "data", "-U", USER, "--auth=scram-sha-256", f"--pwfile={password}", "--no-sync",
                 "--encoding=UTF8", "--locale=C.UTF-8")
        self.start()
        self.environment = {"PGPASSFILE": str(self.password_file(USER, PASSWORD))}

    def password_file(self, user, password):
        path = self.folder / f"pgpass-{user}"
        quoted = password.replace("\\", "\\\\").replace(":", "\\:")
        path.write_text(f"*:*:*:{user}:{quoted}\n")
        path.chmod(0o600)
        return path

    def url(self, user=USER):
        return f"postgresql://{user}@/postgres?host={self.folder}"

    def run(self, program, *words, **more):
        done = subprocess.run([self.programs / program, *map(str, words)], capture_output=True, text=True, timeout=120, cwd=self.folder,
                              **self.rights, **more)
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def start(self):
        self.run("pg_ctl", "-D", self.folder / "data", "-l", self.folder / "log", "-w", "-t", STARTED_SECONDS, "-o",
                 f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off", "start")

    def stop(self):
        self.run("pg_ctl", "-D", self.folder / "data", "-m", "fast", "-w", "stop")

    def sql(self, text):
        done = subprocess.run([self.programs / "psql", "-At", "-v", "ON_ERROR_STOP=1", "-c", text, self.url()], capture_output=True, text=True,
                              timeout=60, env={**os.environ, **self.environment})
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout

    def close(self):
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder)
