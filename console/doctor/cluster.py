"""The token, and the nodes of the Ray cluster where there is one."""

from __future__ import annotations

import os
import platform
import stat
import uuid
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from ...actors.cluster_address import MODE, token_place
from ...common.errors import ClusterUnreachableError, TidegateError
from ...state.storage.checkpoint_storage import open_storage
from .finding import Finding, Severity, ok
from .storage import without_trace

if TYPE_CHECKING:
    from ...actors.nodes import NodeFacts

_SKEW_MS = 500
"""Spans and event times of different nodes that differ by more are hard to read."""


def check_token() -> Iterator[Finding]:
    """Whether Ray would be started and reached with a token, and whether other users can read it."""
    mode = os.environ.get(MODE, "token")
    if mode != "token":
        yield Finding(
            "token",
            Severity.WARNING,
            f"{MODE}={mode}: any client that reaches the cluster can run code on it",
            f"unset {MODE}, and give all nodes one token: `ray get-auth-token --generate`",
        )
        return
    place = token_place()
    path = Path(place)
    if place == "RAY_AUTH_TOKEN":
        yield ok("token", "in RAY_AUTH_TOKEN")
    elif not path.exists():
        yield Finding(
            "token",
            Severity.NOTE,
            f"there is none in RAY_AUTH_TOKEN or {path}",
            "an embedded Ray makes one; for a cluster, copy that of its head (`ray get-auth-token`)",
        )
    elif _is_open_to_others(path):
        yield Finding("token", Severity.WARNING, f"other users can read {path}", f"chmod 600 {path}")
    else:
        yield ok("token", f"in {path}")


def _is_open_to_others(path: Path) -> bool:
    """Whether other users can read a file: Ray makes its own so, but homes are often closed to them."""
    if not path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        return False
    return all(parent.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH) for parent in path.absolute().parents)


def check_cluster(address: str | None, checkpoint_dir: str | None) -> Iterator[Finding]:
    """Whether the cluster can be reached, and its nodes are fit for jobs that are started here.

    Args:
        address: Of the cluster; without one, and without RAY_ADDRESS, jobs bring their own Ray.
        checkpoint_dir: What all nodes have to find in one place.
    """
    where = address or os.environ.get("RAY_ADDRESS")
    if not where:
        yield ok("cluster", "none is named (--address, RAY_ADDRESS): jobs start a Ray of their own")
        return
    # Here and not above: a check of this machine must not pay for importing Ray.
    from ...actors.nodes import look_at_nodes

    probe = f"doctor-{uuid.uuid4().hex}/probe"
    with without_trace(checkpoint_dir or ""):
        shared = _with_probe(checkpoint_dir, probe)
        try:
            nodes = look_at_nodes(where, shared, probe)
        except ClusterUnreachableError as error:
            reason, _, remedy = str(error).partition(". ")
            yield Finding("cluster", Severity.ERROR, reason, remedy)
            return
        finally:
            if shared is not None:
                open_storage(shared).delete([probe])
    yield ok("cluster", f"{len(nodes)} node{'s' if len(nodes) > 1 else ''} at {where}")
    for node in nodes:
        yield from _node(node, shared)


def _with_probe(directory: str | None, probe: str) -> str | None:
    """`directory` with a file in it for the nodes to find, `None` if that cannot be made."""
    if directory is None:
        return None
    try:
        open_storage(directory).write_file(probe, b"tidegate doctor")
    except TidegateError:
        # `check_storage` says why.
        return None
    return directory


def _node(node: NodeFacts, directory: str | None) -> Iterator[Finding]:
    check = f"node {node.address}"
    if node.problem:
        yield Finding(
            check,
            Severity.ERROR,
            f"runs nothing of Tidegate: {node.problem}",
            "install the same Python and the same wheel on every node, or use an image that has them",
        )
        return
    here = platform.python_version()
    if node.python != here or node.tidegate != _own_version():
        yield Finding(
            check,
            Severity.ERROR,
            f"has Python {node.python} and Tidegate {node.tidegate}; here are {here} and {_own_version()}",
            "use the same versions everywhere: functions travel as bytecode",
        )
    if abs(node.clock_ahead_ms) - node.uncertainty_ms > _SKEW_MS:
        way = "ahead of" if node.clock_ahead_ms > 0 else "behind"
        yield Finding(
            check,
            Severity.WARNING,
            f"its clock is {abs(node.clock_ahead_ms):.0f} ms {way} the one here",
            "synchronise the clocks (chrony, ntpd)",
        )
    if directory is not None and not node.finds_probe:
        yield Finding(
            check,
            Severity.ERROR,
            f"does not see in {directory} what was written there from here",
            "use a directory that all nodes share, or a URL such as s3://…",
        )
        return
    yield ok(check, f"Python {node.python}, Tidegate {node.tidegate}, clock {node.clock_ahead_ms:+.1f} ms")


def _own_version() -> str:
    try:
        return version("tidegate")
    except PackageNotFoundError:
        return "of unknown version"
