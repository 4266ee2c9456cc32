"""Network namespaces as the hosts of a Ray cluster, and links between them that can be cut.

Each host is a namespace with an address of its own. All are connected to one more namespace, the router,
which forwards between them and has no other way out. A cut is a rule of the router that drops what one host
sends to another one, without an answer. The hosts see what they would see of a broken line: silence. Their
own links stay up, and a cut affects one pair of hosts, in one direction or in both.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

HEAD, NODE_A, NODE_B = NAMES = ("head", "node-a", "node-b")
CPUS = {HEAD: 0, NODE_A: 2, NODE_B: 2}
PORT = 6379
_ROUTER = "router"
_STORE_BYTES = 80 << 20
_START_LIMIT_S = 240
_PREFIX = "tidegate-"

Pair = tuple[str, str]
"""The host that sends, and the one to which."""


class NotPermittedError(Exception):
    """This user, or this machine, has no network namespaces."""


@dataclass(frozen=True)
class Hosts:
    """Some hosts that exist; any process that knows the values can work with them.

    Attributes:
        prefix: Of the names of their namespaces.
        ray_directory: Ray's files; the hosts share the file system.
    """

    prefix: str
    ray_directory: str

    @staticmethod
    def address(host: str) -> str:
        """The address of a host; those of two clusters may be equal, as no packet leaves a cluster."""
        return f"10.199.{NAMES.index(host)}.2"

    @property
    def ray_address(self) -> str:
        """Where Ray's head is reached."""
        return f"{self.address(HEAD)}:{PORT}"

    def namespace(self, host: str) -> str:
        """The name of a host's namespace."""
        return self.prefix + host

    def command(self, host: str, arguments: Sequence[str]) -> list[str]:
        """What runs a command on a host."""
        return ["ip", "netns", "exec", self.namespace(host), *arguments]

    def begin_ray(self, host: str) -> subprocess.Popen[str]:
        """Start Ray on a host; the process that is returned ends when Ray is up."""
        role = ["--address", self.ray_address]
        if host == HEAD:
            role = ["--head", f"--port={PORT}", "--include-dashboard=false"]
        arguments = [
            sys.executable, "-m", "ray.scripts.scripts", "start", *role, f"--num-cpus={CPUS[host]}",
            f"--node-ip-address={self.address(host)}", f"--temp-dir={self.ray_directory}/{NAMES.index(host)}",
            f"--object-store-memory={_STORE_BYTES}",
            "--disable-usage-stats", "--include-log-monitor=false",
        ]  # fmt: skip
        return subprocess.Popen(
            self.command(host, arguments),
            # On a busy machine a node takes more than Ray's half minute to start.
            env={**os.environ, "RAY_raylet_start_wait_time_s": str(_START_LIMIT_S)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def start_ray(self, *hosts: str) -> None:
        """Start Ray on hosts, and wait until it is up."""
        starting = [(host, self.begin_ray(host)) for host in hosts]
        for host, process in starting:
            output, _ = process.communicate(timeout=_START_LIMIT_S)
            assert process.returncode == 0, f"Ray did not start on {host}:\n{output}"

    def start_cluster(self) -> None:
        """Start Ray on all hosts."""
        self.start_ray(HEAD)
        self.start_ray(*(host for host in NAMES if host != HEAD))

    def cut(self, *pairs: Pair) -> None:
        """Drop what each pair's first host sends to its second."""
        for pair in pairs:
            self._rule("add", pair)

    def heal(self, *pairs: Pair) -> None:
        """Undo `cut`."""
        for pair in pairs:
            self._rule("del", pair)

    def _rule(self, action: str, pair: Pair) -> None:
        sender, receiver = map(self.address, pair)
        _ip("-n", self.namespace(_ROUTER), "rule", action, "from", sender, "to", receiver, "blackhole")

    def host_of(self, pid: int) -> str:
        """The host that a process runs on; empty if it has ended."""
        return _ip("netns", "identify", str(pid)).strip().removeprefix(self.prefix)

    def kill(self, host: str) -> None:
        """Kill every process on a host."""
        while pids := _ip("netns", "pids", self.namespace(host)).split():
            for pid in map(int, pids):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    # ------------------------------------------------------------ making and removing

    def _make(self) -> None:
        router = self.namespace(_ROUTER)
        _ip("netns", "add", router)
        for host in NAMES:
            name, port = self.namespace(host), f"to-{host}"
            gateway = self.address(host).removesuffix("2") + "1"
            _ip("netns", "add", name)
            _ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", router)
            for namespace, device, address in ((router, port, gateway), (name, "eth0", self.address(host))):
                _ip("-n", namespace, "address", "add", f"{address}/24", "dev", device)
                _ip("-n", namespace, "link", "set", "dev", device, "up")
            _ip("-n", name, "link", "set", "dev", "lo", "up")
            _ip("-n", name, "route", "add", "default", "via", gateway)
        forward = "/proc/sys/net/ipv4/ip_forward"
        subprocess.run(self.command(_ROUTER, ["sh", "-c", f"echo 1 > {forward}"]), check=True)

    def _remove(self) -> None:
        existing = namespaces()
        for host in (*NAMES, _ROUTER):
            if self.namespace(host) in existing:
                self.kill(host)
                # Its devices go with it, and with them their ends in the router.
                _ip("netns", "delete", self.namespace(host))


@contextmanager
def connected_hosts() -> Iterator[Hosts]:
    """Three hosts, without Ray yet; nothing of them stays, and no process that was started on them.

    Raises:
        NotPermittedError: Namespaces are not permitted, or `ip` is missing.
    """
    _check()
    # Short: the paths of Ray's sockets end at 107 characters.
    directory = tempfile.mkdtemp(prefix="tp", dir="/tmp")
    made = Hosts(f"{_PREFIX}{os.getpid()}-{secrets.token_hex(2)}-", directory)
    try:
        made._make()
        yield made
    finally:
        made._remove()
        shutil.rmtree(directory, ignore_errors=True)


def _check() -> None:
    probe = f"{_PREFIX}{os.getpid()}-probe"
    try:
        _ip("netns", "add", probe)
        _ip("netns", "delete", probe)
    except FileNotFoundError:
        raise NotPermittedError("network namespaces need the command `ip` (Debian: iproute2)") from None
    except subprocess.CalledProcessError as error:
        raise NotPermittedError(f"network namespaces are not permitted: {error.stderr.strip()}") from None


def namespaces() -> set[str]:
    """The names of all that exist."""
    return {line.split()[0] for line in _ip("netns", "list").splitlines()}


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout
