"""The plan of a job as data for people and tools, in the form of Flink's JSON plan.

Source of the form: Flink's `JSONGenerator`. Beyond it a node says its `uid`, its `max_parallelism` and its
`task`, the number of the chain that it runs in.
"""

from __future__ import annotations

from typing import Any

from .plan import JobGraph, StreamEdge, StreamNode


def execution_plan(job: JobGraph) -> dict[str, Any]:
    """`{"nodes": […]}`: one entry per operator, with its predecessors by input.

    A node has `id`, `type`, `pact`, `contents`, `parallelism`, `max_parallelism`, `uid`, `task` and, unless
    it is a source, `predecessors`: each with `id`, `ship_strategy` and `side`, and with `output_tag` where it
    is a side output.
    """
    edges = [*job.edges, *(edge for task in job.tasks for edge in task.chained)]
    tasks = {node.node_id: number for number, task in enumerate(job.tasks, 1) for node in task.nodes}
    nodes = sorted(job.operators, key=lambda node: node.node_id)
    return {"nodes": [_node(node, tasks[node.node_id], edges) for node in nodes]}


def _node(node: StreamNode, task: int, edges: list[StreamEdge]) -> dict[str, Any]:
    kind = "Source: " if node.is_source else "Sink: " if node.is_sink else ""
    entry: dict[str, Any] = {
        "id": node.node_id,
        "type": kind + node.name,
        "pact": {"Source: ": "Data Source", "Sink: ": "Data Sink", "": "Operator"}[kind],
        "contents": node.description or kind + node.name,
        "parallelism": node.parallelism,
        "max_parallelism": node.max_parallelism,
        "uid": node.uid,
        "task": task,
    }
    inputs = [edge for edge in edges if edge.target_id == node.node_id]
    if inputs:
        ordered = sorted(inputs, key=lambda edge: (edge.input_index, edge.edge_id))
        entry["predecessors"] = [_predecessor(edge) for edge in ordered]
    return entry


def _predecessor(edge: StreamEdge) -> dict[str, Any]:
    entry = {
        "id": edge.source_id,
        "ship_strategy": edge.partitioning.value.upper(),
        "side": "first" if edge.input_index == 0 else "second",
    }
    return entry if edge.output_tag is None else {**entry, "output_tag": edge.output_tag}
