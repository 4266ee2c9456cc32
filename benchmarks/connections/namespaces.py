"""Two network namespaces with a pair of virtual Ethernet devices between them: two hosts."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from collections.abc import Iterator

ADDRESSES = ("10.213.77.1", "10.213.77.2")


@contextlib.contextmanager
def two_namespaces() -> Iterator[tuple[str, str]]:
    """The names of two namespaces with `ADDRESSES`, removed in the end. Needs root.

    Raises:
        RuntimeError: `ip` is missing, or may not create them.
    """
    token = secrets.token_hex(3)
    names = f"tg-{token}-0", f"tg-{token}-1"
    devices = f"tg{token}0", f"tg{token}1"
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip(
            "link",
            "add",
            devices[0],
            "netns",
            names[0],
            "type",
            "veth",
            "peer",
            devices[1],
            "netns",
            names[1],
        )
        for name, device, address in zip(names, devices, ADDRESSES, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", device)
            _ip("-n", name, "link", "set", device, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            # The devices go with the namespaces.
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    try:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise RuntimeError("network namespaces need the command ip (package iproute2)") from None
    if done.returncode:
        hint = "" if os.geteuid() == 0 else "; run the benchmark as root"
        raise RuntimeError(f"ip {' '.join(arguments)} failed: {done.stderr.strip()}{hint}")
