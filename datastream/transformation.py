"""Transformations: what the fluent calls record, and the stream graph made of them."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import cloudpickle

from ..common.errors import SerializationError
from ..operators.base import StreamOperator
from ..protocol.key_groups import default_max_parallelism
from ..protocol.partitioning import Partitioning
from ..protocol.plan import Chaining, StreamEdge, StreamGraph, StreamNode

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger("tidegate")

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


@dataclass(slots=True)
class Input:
    """One stream that flows into a transformation. Without partitioning: forward where possible."""

    source: Transformation
    partitioning: Partitioning | None = None
    key_selector: object = None
    input_index: int = 0


@dataclass(slots=True, eq=False)
class Transformation:
    """One operator as the user is writing it; name, uid and parallelism may still change."""

    name: str
    operator: StreamOperator
    inputs: list[Input] = field(default_factory=list)
    parallelism: int | None = None
    max_parallelism: int | None = None
    highest_parallelism: int | None = None
    uid: str | None = None
    previous_uids: tuple[str, ...] = ()
    chaining: Chaining = Chaining.ALWAYS
    is_source: bool = False
    is_stateful: bool = False
    is_coordinated: bool = False
    colocation_group: str | None = None
    columns: pa.Schema | None = None
    """Columns of the Arrow batches it emits, if that is what it emits and they are known."""
    defined_at: str = field(default_factory=lambda: user_line())


def user_line() -> str:
    """File and line of the innermost frame outside this package: where the user wrote the call."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def _is_inside(filename: str) -> bool:
    if filename.startswith("<"):
        return True
    path = os.path.realpath(filename)
    rooms = ("tests", "examples", "benchmarks")
    inside = path.startswith(_PACKAGE + os.sep)
    return inside and os.path.relpath(path, _PACKAGE).split(os.sep)[0] not in rooms


def build_stream_graph(
    job_name: str,
    sinks: Iterable[Transformation],
    parallelism: int,
    max_parallelism: int | None,
) -> StreamGraph:
    """The stream graph of everything that some transformation in `sinks` needs.

    Args:
        parallelism: For operators that set none themselves.
        max_parallelism: Likewise; `None` lets it follow from the parallelism.
    """
    ordered = _upstream_first(sinks)
    ids = {id(transformation): number for number, transformation in enumerate(ordered, start=1)}
    graph = StreamGraph(job_name)
    uids = _assign_uids(ordered)
    for transformation in ordered:
        own = transformation.parallelism or parallelism
        if transformation.highest_parallelism is not None:
            own = min(own, transformation.highest_parallelism)
        node_id = ids[id(transformation)]
        graph.nodes[node_id] = StreamNode(
            node_id=node_id,
            name=transformation.name,
            uid=uids[id(transformation)],
            operator=_pickled(transformation, transformation.operator, "function"),
            parallelism=own,
            max_parallelism=transformation.max_parallelism or max_parallelism or default_max_parallelism(own),
            chaining=transformation.chaining,
            is_source=transformation.is_source,
            is_stateful=transformation.is_stateful,
            is_coordinated=transformation.is_coordinated,
            uid_is_explicit=transformation.uid is not None,
            previous_uids=transformation.previous_uids,
            colocation_group=transformation.colocation_group,
            defined_at=transformation.defined_at,
        )
    numbers = count()
    for transformation in ordered:
        for entry in transformation.inputs:
            graph.edges.append(_edge(next(numbers), entry, transformation, graph, ids))
    return graph


def warn_about_generated_uids(graph: StreamGraph) -> None:
    """Name every stateful operator whose state can only be found again while the job's shape stays."""
    for node in graph.nodes.values():
        if node.is_stateful and not node.uid_is_explicit:
            logger.warning(
                "%s keeps state but has no uid(); a change of the job's shape would lose its state. "
                "Call .uid('some-name') on it",
                node,
            )


def _edge(
    edge_id: int,
    entry: Input,
    target: Transformation,
    graph: StreamGraph,
    ids: dict[int, int],
) -> StreamEdge:
    source_id, target_id = ids[id(entry.source)], ids[id(target)]
    partitioning = entry.partitioning
    if partitioning is None:
        same = graph.nodes[source_id].parallelism == graph.nodes[target_id].parallelism
        partitioning = Partitioning.FORWARD if same else Partitioning.REBALANCE
    selector = None
    if entry.key_selector is not None:
        selector = _pickled(target, entry.key_selector, "key selector of its input")
    return StreamEdge(edge_id, source_id, target_id, partitioning, entry.input_index, selector)


def _pickled(transformation: Transformation, thing: object, what: str) -> bytes:
    try:
        return cloudpickle.dumps(thing)  # type: ignore[no-any-return]
    except Exception as error:
        raise SerializationError(
            f"operator {transformation.name!r} ({transformation.defined_at}): its {what} cannot be "
            f"sent to other processes: {error}. Open connections, locks and files in open(), not in "
            f"the driver"
        ) from error


def _upstream_first(sinks: Iterable[Transformation]) -> list[Transformation]:
    ordered: list[Transformation] = []
    seen: set[int] = set()

    def visit(transformation: Transformation) -> None:
        if id(transformation) in seen:
            return
        seen.add(id(transformation))
        for entry in transformation.inputs:
            visit(entry.source)
        ordered.append(transformation)

    for sink in sinks:
        visit(sink)
    return ordered


def _assign_uids(ordered: list[Transformation]) -> dict[int, str]:
    """Given uids as they are; others from names and structure, the same on every run."""
    uids: dict[int, str] = {}
    used: dict[str, int] = {}
    for transformation in ordered:
        if transformation.uid is not None:
            uids[id(transformation)] = transformation.uid
            continue
        parts = [type(transformation.operator).__name__, transformation.name]
        parts += [f"{uids[id(e.source)]}/{e.input_index}" for e in transformation.inputs]
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
        number = used.get(digest, 0)
        used[digest] = number + 1
        uids[id(transformation)] = f"{digest}-{number}" if number else digest
    return uids
