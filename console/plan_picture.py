"""Draws the plan of a job: operators from left to right, thick arrows between those that share a task.

Layers come from NetworkX, drawing from Matplotlib (see `docs/adr/018-drawing-plans.md`).
"""

from __future__ import annotations

import os
import textwrap
from typing import Any

from ..common.errors import ConfigurationError

_COLOURS = {"Data Source": "#d9ead3", "Operator": "#dce6f5", "Data Sink": "#fce5cd"}
_WIDTH, _HEIGHT = 1.7, 0.7
_COLUMN, _ROW = 2.9, 1.25
"""Distances between the middles of neighbouring boxes, in inches, as are the sizes of boxes."""


def draw(plan: dict[str, Any], title: str, path: str) -> None:
    """Draw an execution plan (see `execution_plan`) into a file.

    Args:
        path: Its ending says the format: `.svg` or `.png`.

    Raises:
        ConfigurationError: Another ending, a file that cannot be written, or the libraries are missing.
    """
    if os.path.splitext(path)[1].lower() not in (".svg", ".png"):
        raise ConfigurationError(f"{path} ends in neither .svg nor .png; choose one of these formats")
    try:
        import networkx
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigurationError(
            f"a picture of the plan needs {error.name}; install it with pip install 'tidegate[plan]'"
        ) from error
    nodes = plan["nodes"]
    graph: Any = networkx.DiGraph()
    graph.add_nodes_from(node["id"] for node in nodes)
    graph.add_edges_from((before["id"], node["id"]) for node in nodes for before in _inputs(node))
    places = _places(list(networkx.topological_generations(graph)), graph)
    columns = 1 + max(x for x, _ in places.values()) / _COLUMN
    rows = 1 + (max(y for _, y in places.values()) - min(y for _, y in places.values())) / _ROW
    figure = Figure(figsize=(columns * _COLUMN, 0.5 + rows * _ROW))
    axes = figure.add_axes((0, 0, 1, 1))
    figure.text(0.5, 0.99, title, ha="center", va="top", fontsize=10)
    axes.axis("off")
    tasks = {node["id"]: node["task"] for node in nodes}
    for node in nodes:
        for before in _inputs(node):
            is_chained = tasks[before["id"]] == node["task"]
            _draw_edge(axes, before, places[before["id"]], places[node["id"]], is_chained)
        _draw_box(axes, node, places[node["id"]])
    axes.set_aspect("equal")
    axes.margins(0.05)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error}") from error


def _inputs(node: dict[str, Any]) -> list[dict[str, Any]]:
    return list(node.get("predecessors", ()))


def _places(layers: list[list[int]], graph: Any) -> dict[int, tuple[float, float]]:
    """Middles of the boxes: a column per layer, in it the order of what comes before."""
    places: dict[int, tuple[float, float]] = {}
    for column, layer in enumerate(layers):
        heights = {each: [places[before][1] for before in graph.predecessors(each)] for each in layer}
        # The lower a box's inputs are on average, the lower it stands: few lines cross then.
        ordered = sorted(layer, key=lambda each: (-sum(heights[each]) / (len(heights[each]) or 1), each))
        for row, each in enumerate(ordered):
            places[each] = (column * _COLUMN, ((len(ordered) - 1) / 2 - row) * _ROW)
    return places


def _draw_box(axes: Any, node: dict[str, Any], middle: tuple[float, float]) -> None:
    from matplotlib.patches import FancyBboxPatch

    corner = (middle[0] - _WIDTH / 2, middle[1] - _HEIGHT / 2)
    colour = _COLOURS[node["pact"]]
    box = FancyBboxPatch(corner, _WIDTH, _HEIGHT, boxstyle="round,pad=0.02", fc=colour, ec="#555555")
    axes.add_patch(box)
    name = textwrap.shorten(node["type"], 44, placeholder="…")
    text = "\n".join([*textwrap.wrap(name, 26), f"task {node['task']}, parallelism {node['parallelism']}"])
    axes.text(*middle, text, ha="center", va="center", fontsize=7)


def _draw_edge(
    axes: Any,
    before: dict[str, Any],
    start: tuple[float, float],
    end: tuple[float, float],
    is_chained: bool,
) -> None:
    tail, tip = (start[0] + _WIDTH / 2 + 0.03, start[1]), (end[0] - _WIDTH / 2 - 0.03, end[1])
    arrow = {"arrowstyle": "-|>", "color": "#555555", "linewidth": 3 if is_chained else 1}
    axes.annotate("", xy=tip, xytext=tail, arrowprops=arrow)
    label = before["ship_strategy"] + (f"\n{before['output_tag']}" if "output_tag" in before else "")
    middle = ((tail[0] + tip[0]) / 2, (tail[1] + tip[1]) / 2 + 0.08)
    axes.text(*middle, label, ha="center", va="bottom", fontsize=6, color="#333333")
