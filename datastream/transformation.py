"""Transformations: what the fluent calls record, and the stream graph made of them."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import cloudpickle

from ..common.errors import GraphError, SerializationError
from ..common.typeinfo import TypeInformation
from ..operators.base import StreamOperator
from ..operators.typed_output import OutputTypes
from ..protocol.key_groups import default_max_parallelism
from ..protocol.scheduling.partitioning import Partitioning
from ..protocol.scheduling.plan import (
    DEFAULT_SLOT_SHARING_GROUP,
    Chaining,
    SlotResources,
    StreamEdge,
    StreamGraph,
    StreamNode,
)

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
    partitioner: object = None
    output_tag: str | None = None
    """The side output that the stream is, `None` for the main one."""

    @property
    def type_info(self) -> TypeInformation | None:
        """Type of the records, if it is known."""
        if self.output_tag is None:
            return self.source.output_type
        return self.source.side_outputs[self.output_tag]

    @property
    def hinted_type(self) -> TypeInformation | None:
        """Type of the records, declared or as annotations give it; `None` if neither says anything."""
        if self.type_info is not None or self.output_tag is not None:
            return self.type_info
        operator = self.source.operator
        if operator.keeps_type and self.source.inputs:
            return common_type(entry.hinted_type for entry in self.source.inputs)
        return operator.hinted_type


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
    is_sink: bool = False
    is_stateful: bool = False
    is_coordinated: bool = False
    is_bounded: bool = True
    """Of a source, whether its records end by themselves."""
    colocation_group: str | None = None
    output_type: TypeInformation | None = None
    """Type of what the operator emits, `None` where nobody said."""
    columns: pa.Schema | None = None
    """Columns of the Arrow batches it emits, if that is what it emits and they are known."""
    side_outputs: dict[str, TypeInformation | None] = field(default_factory=dict)
    """The side outputs that somebody asked for, with their types."""
    description: str = ""
    slot_sharing_group: str | None = None
    """`None`: that of its inputs, where they have one in common."""
    buffer_timeout_ms: int | None = None
    defined_at: str = field(default_factory=lambda: user_line())

    def __str__(self) -> str:
        return f"operator {self.name!r} ({self.defined_at})"

    def output_types(self) -> OutputTypes:
        """What the program declared about the outputs."""
        sides = {tag: type_info for tag, type_info in self.side_outputs.items() if type_info is not None}
        return OutputTypes(self.output_type, sides, self.defined_at)


def common_type(types: Iterable[TypeInformation | None]) -> TypeInformation | None:
    """The one type that streams have together; `None` if they differ, or one is not known."""
    first, *others = types
    return first if all(other == first for other in others) else None


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
    slots: Mapping[str, SlotResources],
) -> StreamGraph:
    """The stream graph of everything that some transformation in `sinks` needs.

    Args:
        parallelism: For operators that set none themselves.
        max_parallelism: Likewise; `None` lets it follow from the parallelism.
        slots: What slots of the slot sharing groups take, for those where something was said.
    """
    ordered = upstream_first(sinks)
    ids = {id(transformation): number for number, transformation in enumerate(ordered, start=1)}
    graph = StreamGraph(job_name, slots=dict(slots))
    uids = _assign_uids(ordered)
    groups = _slot_sharing_groups(ordered)
    for transformation in ordered:
        own = transformation.parallelism or parallelism
        if transformation.highest_parallelism is not None:
            own = min(own, transformation.highest_parallelism)
        node_id = ids[id(transformation)]
        transformation.operator.output_types = transformation.output_types()
        graph.nodes[node_id] = StreamNode(
            node_id=node_id,
            name=transformation.name,
            uid=uids[id(transformation)],
            operator=_pickled(transformation, transformation.operator, "function"),
            parallelism=own,
            max_parallelism=transformation.max_parallelism or max_parallelism or default_max_parallelism(own),
            chaining=transformation.chaining,
            is_source=transformation.is_source,
            is_sink=transformation.is_sink,
            is_stateful=transformation.is_stateful,
            is_coordinated=transformation.is_coordinated,
            uid_is_explicit=transformation.uid is not None,
            previous_uids=transformation.previous_uids,
            colocation_group=transformation.colocation_group,
            defined_at=transformation.defined_at,
            description=transformation.description,
            slot_sharing_group=groups[id(transformation)],
            buffer_timeout_ms=transformation.buffer_timeout_ms,
            highest_parallelism=transformation.highest_parallelism,
            stays_single=1 in (transformation.parallelism, transformation.highest_parallelism),
        )
    numbers = count()
    for transformation in ordered:
        for entry in transformation.inputs:
            graph.edges.append(_edge(next(numbers), entry, transformation, graph, ids))
    return graph


def require_uids(graph: StreamGraph) -> None:
    """Refuse a job in which an operator has no uid of its own.

    Raises:
        GraphError: Naming every such operator.
    """
    without = [str(node) for node in graph.nodes.values() if not node.uid_is_explicit]
    if without:
        raise GraphError(
            f"no uid() on {', '.join(without)}, and pipeline.auto-generate-uids is false: give each one with "
            f".uid('some-name'), or allow generated uids"
        )


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
    selector = chooser = None
    if entry.key_selector is not None:
        selector = _pickled(target, entry.key_selector, "key selector of its input")
    if entry.partitioner is not None:
        chooser = _pickled(target, entry.partitioner, "partitioner of its input")
    return StreamEdge(
        edge_id,
        source_id,
        target_id,
        partitioning,
        entry.input_index,
        key_selector=selector,
        output_tag=entry.output_tag,
        partitioner=chooser,
    )


def _pickled(transformation: Transformation, thing: object, what: str) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps(thing)
    except Exception as error:
        raise SerializationError(
            f"operator {transformation.name!r} ({transformation.defined_at}): its {what} cannot be "
            f"sent to other processes: {error}. Open connections, locks and files in open(), not in "
            f"the driver"
        ) from error
    return pickled


def upstream_first(sinks: Iterable[Transformation]) -> list[Transformation]:
    """Everything that some transformation in `sinks` needs, and themselves; each after its inputs."""
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


def _slot_sharing_groups(ordered: list[Transformation]) -> dict[int, str]:
    """As in Flink: the group that was set, else the one that all inputs share, else the default."""
    groups: dict[int, str] = {}
    for transformation in ordered:
        inherited = {groups[id(entry.source)] for entry in transformation.inputs}
        common = inherited.pop() if len(inherited) == 1 else DEFAULT_SLOT_SHARING_GROUP
        groups[id(transformation)] = transformation.slot_sharing_group or common
    return groups


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
