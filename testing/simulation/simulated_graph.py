"""The job graph of a plan, and the ways its records take through it."""

from __future__ import annotations

import pickle
import zlib

from ...operators.base import StreamOperator
from ...operators.elementwise import MapOperator
from ...operators.keyed.keyed import KeyedProcessOperator
from ...operators.sources.sources import SourceOperator
from ...protocol.scheduling.partitioning import Partitioning
from ...protocol.scheduling.plan import JobGraph, StreamEdge, StreamGraph, StreamNode, build_job_graph
from .plan import MAX_PARALLELISM, Link, Plan, Run, Stage, StageKind
from .simulated_operators import (
    BufferOperator,
    CountByKey,
    DelayByKey,
    DiscoveredSource,
    JoinOperator,
    KeyOf,
    Pass,
    ReplayableSource,
    ShareOperator,
    SimulatedSink,
    SimulatedSinkOperator,
    SimulatedTransactions,
)
from .simulated_stage import SimulatedStage


def job_graph(plan: Plan, run: Run) -> JobGraph:
    """The graph of one run."""
    graph = StreamGraph("simulated")
    for number, stage in enumerate(plan.stages):
        graph.nodes[number] = StreamNode(
            node_id=number,
            name=stage.uid,
            uid=stage.uid,
            operator=pickle.dumps(_operator(plan, number, stage)),
            parallelism=run.parallelism[number],
            max_parallelism=MAX_PARALLELISM,
            chaining=stage.chaining,
            is_source=stage.kind is StageKind.SOURCE,
            is_stateful=True,
            is_coordinated=_is_discovered(plan, number, stage) or _is_epoch_stage(plan, number, stage),
            uid_is_explicit=True,
        )
        for link in stage.inputs:
            graph.edges.append(_edge(len(graph.edges), number, stage, link))
    return build_job_graph(graph, share_processes=plan.shares_processes)


def _is_discovered(plan: Plan, number: int, stage: Stage) -> bool:
    """Whether an enumerator finds a source's splits: for every third source."""
    return stage.kind is StageKind.SOURCE and (plan.seed + number) % 3 == 0


def _is_epoch_stage(plan: Plan, number: int, stage: Stage) -> bool:
    """Whether a map function runs epoch by epoch outside its task: every third."""
    return stage.kind is StageKind.MAP and (plan.seed + number) % 3 == 0


def _edge(edge_id: int, number: int, stage: Stage, link: Link) -> StreamEdge:
    selector = partitioner = None
    if link.partitioning in (Partitioning.HASH, Partitioning.CUSTOM):
        selector = pickle.dumps(_key_of(number, stage))
    if link.partitioning is Partitioning.CUSTOM:
        partitioner = pickle.dumps(_subtask_of)
    return StreamEdge(
        edge_id, link.stage, number, link.partitioning, link.input_index, selector, partitioner=partitioner
    )


def _subtask_of(key: object, count: int) -> int:
    return zlib.crc32(repr(key).encode()) % count


def _key_of(number: int, stage: Stage) -> KeyOf:
    return KeyOf(number, stage.keys, stage.is_skewed)


def _operator(plan: Plan, number: int, stage: Stage) -> StreamOperator:
    uid, key_of = stage.uid, _key_of(number, stage)
    if stage.kind is StageKind.SOURCE:
        source = DiscoveredSource if _is_discovered(plan, number, stage) else ReplayableSource
        return SourceOperator(source(uid, plan.splits, plan.records))
    if _is_epoch_stage(plan, number, stage):
        return SimulatedStage(uid, plan.seed + number)
    if stage.kind is StageKind.MAP:
        return MapOperator(Pass(uid))
    if stage.kind is StageKind.COUNT:
        return KeyedProcessOperator(CountByKey(uid, stage.states), key_of)
    if stage.kind is StageKind.JOIN:
        is_broadcast = stage.inputs[-1].partitioning is Partitioning.BROADCAST
        return JoinOperator(uid, stage.states, key_of, is_broadcast)
    if stage.kind is StageKind.BUFFER:
        return BufferOperator(uid)
    if stage.kind is StageKind.DELAY:
        return KeyedProcessOperator(DelayByKey(uid, stage.is_timed), key_of)
    if stage.kind is StageKind.SHARE:
        return ShareOperator(uid)
    return SimulatedSinkOperator(SimulatedTransactions() if stage.has_transactions else SimulatedSink())


def ways_to_sinks(plan: Plan) -> list[tuple[str, ...]]:
    """Every way a record takes from its source to a sink: the uids of the stages, the sink's not."""
    ways: list[list[tuple[str, ...]]] = []
    ended: list[tuple[str, ...]] = []
    for stage in plan.stages:
        before = [way for link in stage.inputs for way in ways[link.stage]]
        if stage.kind is StageKind.SINK:
            ended += before
        ways.append([(*way, stage.uid) for way in before or [()]])
    return ended


def keeps_order(plan: Plan) -> dict[str, bool]:
    """By uid, whether a stage gets the records of one split and key in the split's order."""
    ordered: list[bool] = []
    result: dict[str, bool] = {}
    for number, stage in enumerate(plan.stages):
        links = [link.partitioning for link in stage.inputs]
        comes_in_order = all(ordered[link.stage] for link in stage.inputs)
        result[stage.uid] = comes_in_order and set(links) <= {Partitioning.FORWARD, Partitioning.HASH}
        # Epochs return their records in any order. Behind a shuffle only records of one key are in order,
        # and behind a buffer those that did not move to another subtask when the job was rescaled.
        keeps = stage.kind not in (StageKind.BUFFER, StageKind.DELAY)
        keeps = keeps and not _is_epoch_stage(plan, number, stage)
        ordered.append(comes_in_order and set(links) <= {Partitioning.FORWARD} and keeps)
    return result


def most_delayed(plan: Plan) -> int:
    """The most records that leave in one step: they waited for the end of event time, or for a run."""
    stages = [number for number, stage in enumerate(plan.stages) if _is_epoch_stage(plan, number, stage)]
    results = max((SimulatedStage("", plan.seed + number).most_emitted for number in stages), default=0)
    # Twice as many where some come again.
    every = (1 if plan.is_exactly_once else 2) * len(ways_to_sinks(plan)) * plan.splits * plan.records
    is_delayed = any(stage.kind is StageKind.DELAY for stage in plan.stages)
    return every if is_delayed else min(results, every)
