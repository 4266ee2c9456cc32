"""What this machine gives to processes: open files, shared memory, a place for local state, ports."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..text import size
from .finding import Finding, Severity, ok

_OPEN_FILES = 65_536
"""What Ray recommends; below it warns, and large clusters fail."""
_FEW_OPEN_FILES = 4_096
_UNLIMITED = sys.maxsize
_PROCESSES = 4_096
_OBJECT_STORE_SHARE = 0.3
"""Ray's default share of the memory for its object store, at most 200 GB."""
_LITTLE_SPACE_BYTES = 1 << 30
_FULL_SHARE = 0.05
"""Ray stops to store objects when a disk has less left than this."""
_NETWORK_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "ceph", "glusterfs"}
_PORTS = {6_379: "Ray's head (--port)", 8_265: "Ray's dashboard (--dashboard-port)"}


def check_limits() -> Iterator[Finding]:
    """How many files and processes this user may have open."""
    soft, hard = (
        _UNLIMITED if each == resource.RLIM_INFINITY else each
        for each in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    if soft >= _OPEN_FILES:
        yield ok("open files", "unlimited" if soft == _UNLIMITED else f"{soft:,} allowed")
    else:
        severity = Severity.WARNING if soft < _FEW_OPEN_FILES else Severity.NOTE
        limit = "" if hard == _UNLIMITED else f", hard limit {hard:,}"
        text = f"{soft:,} allowed{limit}; Ray recommends {_OPEN_FILES:,}"
        yield Finding("open files", severity, text, _more_open_files(soft, hard))
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if processes != resource.RLIM_INFINITY and processes < _PROCESSES:
        yield Finding(
            "processes",
            Severity.WARNING,
            f"{processes:,} allowed, threads counted; a busy node needs {_PROCESSES:,}",
            f"`ulimit -u {_PROCESSES}`, in containers the limit of pids",
        )
    else:
        yield ok("processes", "enough allowed")


def _more_open_files(soft: int, hard: int) -> str:
    """How to allow more open files; only root can go above the hard limit."""
    files = "in /etc/security/limits.conf or the service's LimitNOFILE"
    if hard >= _OPEN_FILES:
        return f"run `ulimit -n {_OPEN_FILES}`; for all sessions, set it {files}"
    raised = f"as root, raise the hard limit to {_OPEN_FILES} {files}"
    return raised if soft == hard else f"run `ulimit -n {hard}`, the most that this user may set; {raised}"


def check_shared_memory() -> Iterator[Finding]:
    """Whether Ray's object store fits into /dev/shm."""
    try:
        total = shutil.disk_usage("/dev/shm").total
    except OSError:
        yield Finding(
            "shared memory",
            Severity.WARNING,
            "there is no /dev/shm",
            "mount a tmpfs there; Ray then need not use the disk",
        )
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    wanted = int(memory * _OBJECT_STORE_SHARE)
    if total >= wanted:
        yield ok("shared memory", f"{size(total)} in /dev/shm")
        return
    yield Finding(
        "shared memory",
        Severity.WARNING,
        f"/dev/shm has {size(total)}; Ray's object store would be {size(wanted)}, and goes to the slow disk",
        f"start the container with --shm-size={wanted >> 20}m, or Ray with a smaller --object-store-memory",
    )


def check_local_dir(path: str | None) -> Iterator[Finding]:
    """Whether tasks can keep their local state."""
    directory = Path(path or os.path.join(tempfile.gettempdir(), "tidegate"))
    nearest = next(each for each in (directory, *directory.parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"probe")
    except OSError as error:
        yield Finding(
            "local directory",
            Severity.ERROR,
            f"{nearest} cannot be written: {error.strerror}",
            "set tidegate.local-dir to a directory on a local disk that this user can write",
        )
        return
    kind = _file_system(nearest)
    if kind in _NETWORK_SYSTEMS:
        yield Finding(
            "local directory",
            Severity.WARNING,
            f"{directory} is on a network file system ({kind}), where LMDB is slow and not safe",
            "set tidegate.local-dir to a local disk",
        )
        return
    yield _space("local directory", directory, nearest, kind)


def _space(check: str, directory: Path, nearest: Path, kind: str) -> Finding:
    usage = shutil.disk_usage(nearest)
    text = f"{directory}: {size(usage.free)} of {size(usage.total)} free ({kind})"
    if usage.free < _LITTLE_SPACE_BYTES or usage.free < usage.total * _FULL_SHARE:
        return Finding(check, Severity.WARNING, text, "free space, or set tidegate.local-dir to another disk")
    return ok(check, text)


def _file_system(path: Path) -> str:
    """The kind of the file system that holds `path`, from the longest mount point above it."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
    place = path.resolve()
    above = [(point, kind) for point, kind in mounts if place.is_relative_to(point)]
    return max(above, key=lambda mount: len(mount[0]), default=("/", "unknown"))[1]


def check_ports() -> Iterator[Finding]:
    """Whether the ports are free that a Ray head takes by default."""
    for port, user in _PORTS.items():
        check = f"port {port}"
        with socket.socket() as probe:
            # As servers do, so that connections that have just ended do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                yield Finding(
                    check,
                    Severity.NOTE,
                    f"is not free for {user}: {error.strerror}",
                    f"give `ray start --head` another one; `ss -ltnp sport = :{port}` shows who has it",
                )
            else:
                yield ok(check, f"free for {user}")
