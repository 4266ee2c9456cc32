"""Draws the pictures of the guide into `docs/guide/pictures`.

Run it with `python docs/pictures.py` (extra `plan`, for matplotlib). With a directory as its argument it
draws PNG files there, to look at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PICTURES_DIR = Path(__file__).parent / "guide" / "pictures"

INK, BLUE, ORANGE, GREEN, GREY = "#333333", "#3b78b5", "#d9822b", "#4a9a5c", "#b8b8b8"
KEYS = {"a": BLUE, "b": ORANGE, "c": GREEN}

Axes = Any


def _box(
    axes: Axes, x: float, y: float, width: float, height: float, text: str = "", color: str = BLUE
) -> None:
    from matplotlib.patches import FancyBboxPatch

    shape = FancyBboxPatch(
        (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.12", fc=color + "30", ec=color
    )
    axes.add_patch(shape)
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", color=INK)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], color: str = INK) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": color, "shrinkA": 2, "shrinkB": 2})


def _record(axes: Axes, x: float, y: float, text: str = "", color: str = BLUE) -> None:
    axes.plot([x], [y], "o", ms=15, mfc=color + "60", mec=color)
    axes.text(x, y, text, ha="center", va="center", color=INK, fontsize=8)


def _note(axes: Axes, x: float, y: float, text: str, ha: str = "left") -> None:
    axes.text(x, y, text, ha=ha, va="center", color=INK)


def _time_axis(axes: Axes, y: float, until: float, label: str = "event time, s") -> None:
    _arrow(axes, (0, y), (until + 0.6, y), GREY)
    for second in range(0, int(until) + 1, 5):
        axes.plot([second, second], [y - 0.1, y + 0.1], color=GREY)
        axes.text(second, y - 0.45, str(second), ha="center", color=INK, fontsize=8)
    axes.text(until + 0.8, y, label, va="center", color=INK, fontsize=8)


def job(axes: Axes) -> None:
    """A job from source to sink: what flows between its operators, and what each of them keeps."""
    names = ["source", "process\nfunction", "window", "sink"]
    for place, (name, color) in enumerate(zip(names, [GREY, BLUE, BLUE, GREY])):
        _box(axes, place * 5, 3, 2.6, 1.3, name, color)
    between = ["records,\nwatermarks,\nbarriers", "key_by:\none key,\none subtask", "results"]
    for place, text in enumerate(between):
        _arrow(axes, (place * 5 + 2.6, 3.65), (place * 5 + 5, 3.65))
        axes.text(place * 5 + 3.8, 3.85, text, ha="center", va="bottom", color=INK, fontsize=8)
    for place, text in ((5, "state of each key,\ntimers"), (10, "contents of each\nkey and window")):
        _box(axes, place - 0.5, 0.6, 3.6, 1.3, text, GREEN)
        axes.plot([place + 1.3] * 2, [1.9, 3], color=GREEN)
    _arrow(axes, (6.3, 4.3), (6.3, 5.6), ORANGE)
    _note(axes, 6.3, 5.95, "side output: late or odd records", "center")
    _limits(axes, (-0.2, 18), (0.4, 6.3))


def watermarks(axes: Axes) -> None:
    """A stream whose records are out of order, the watermark behind them, and a window that ends."""
    arrivals = [2, 4, 3, 7, 5, 9, 12, 10, 14, 8]
    highest = 0
    marks = []
    for order, second in enumerate(arrivals):
        highest = max(highest, second)
        marks.append(highest - 3)
        _record(
            axes,
            order,
            second,
            str(second),
            ORANGE if second <= (marks[order - 1] if order else -3) else BLUE,
        )
    axes.step([*range(10), 9.9], [*marks, marks[-1]], where="post", color=GREEN)
    axes.plot([-0.5, 10.2], [10, 10], "--", color=GREY)
    _note(axes, 10.4, 10, "end of the window 0 to 10:\nit fires when the watermark gets here")
    _note(axes, 10.4, 12.4, "watermark: highest time so far, less 3 s")
    axes.annotate("", (9.6, 11.1), (10.4, 12.3), arrowprops={"arrowstyle": "->", "color": GREEN})
    _note(axes, 10.4, 7.7, "late: behind the watermark")
    axes.set_xlabel("order of arrival →", color=INK)
    axes.set_ylabel("event time, s", color=INK)
    axes.axis("on")
    axes.set_xticks([])
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(-0.6, 17)
    axes.set_ylim(-2, 16)


def windows(axes: Axes) -> None:
    """Tumbling, sliding and session windows over the same records of one key."""
    records = [1, 3, 4, 9, 11, 12, 18, 19]
    for second in records:
        _record(axes, second, 7.4, "")
    _time_axis(axes, 6.6, 20)
    _note(axes, -6.5, 7.4, "records of a key")
    _note(axes, -6.5, 5, "tumbling, 10 s")
    for start in (0, 10):
        count = sum(start <= second < start + 10 for second in records)
        _box(axes, start + 0.05, 4.7, 9.9, 0.7, f"{start} to {start + 10}: {count} records")
    _note(axes, -6.5, 3.2, "sliding, 10 s,\nevery 5 s, and so on")
    for row, start in enumerate((0, 5, 10)):
        count = sum(start <= second < start + 10 for second in records)
        _box(axes, start + 0.05, 3.6 - row * 0.8, 9.9, 0.7, f"{start} to {start + 10}: {count}", ORANGE)
    _note(axes, -6.5, 0.7, "session, gap 4 s")
    for first, last in ((1, 4), (9, 12), (18, 19)):
        count = sum(first <= second <= last for second in records)
        _box(axes, first, 0.4, last + 4 - first, 0.7, f"{first} to {last + 4}: {count}", GREEN)
    _limits(axes, (-6.8, 26), (-0.3, 8.2))


def joins(axes: Axes) -> None:
    """A window join, which pairs within windows, and an interval join, which pairs by distance."""
    left, right = [2, 8, 14], [4, 9, 11]
    for top, title in ((7, "window join, 10 s"), (2.4, "interval join, -3 s to +3 s")):
        _note(axes, -8, top, title)
        for second in left:
            _record(axes, second, top + 0.8, str(second), BLUE)
        for second in right:
            _record(axes, second, top - 0.8, str(second), ORANGE)
        _note(axes, 17, top + 0.8, "left")
        _note(axes, 17, top - 0.8, "right")
    for start in (0, 10):
        _box(axes, start + 0.05, 5.6, 9.9, 2.8, "", GREY)
    for one in left:
        for other in right:
            if one // 10 == other // 10:
                axes.plot([one, other], [7.45, 6.55], color=INK)
            if -3 <= other - one <= 3:
                axes.plot([one, other], [2.85, 1.95], color=INK)
    _time_axis(axes, 0.6, 16)
    _limits(axes, (-8.2, 22), (-0.3, 9))


def partitioning(axes: Axes) -> None:
    """How records go from two subtasks to two or three."""
    ways: list[tuple[str, list[tuple[int, int]]]] = [
        ("forward", [(0, 0), (1, 1)]),
        ("rebalance, shuffle,\nkey_by, custom", [(0, 0), (0, 1), (1, 0), (1, 1)]),
        ("rescale", [(0, 0), (0, 1), (1, 2), (1, 3)]),
        ("global_", [(0, 0), (1, 0)]),
        ("broadcast: to all", [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]),
    ]
    for column, (title, edges) in enumerate(ways):
        x = column * 4.4
        targets = {0: 2, 1: 2, 2: 4, 3: 2, 4: 3}[column]
        axes.text(x + 1.6, 5.1, title, ha="center", va="bottom", color=INK)
        senders = [(x, 3.2), (x, 1.2)]
        receivers = [(x + 2.4, 4.2 - 4 * (row + 0.5) / targets) for row in range(targets)]
        for one, other in edges:
            _arrow(axes, (x + 0.85, senders[one][1] + 0.0), (receivers[other][0], receivers[other][1]))
        for sender in senders:
            _box(axes, sender[0], sender[1] - 0.35, 0.8, 0.7)
        for receiver in receivers:
            _box(axes, receiver[0], receiver[1] - 0.35, 0.8, 0.7, "", ORANGE)
    _limits(axes, (-0.4, 21.6), (-0.1, 6.5))


def timers(axes: Axes) -> None:
    """Timers of two keys fire in the order of their times when the watermark passes them."""
    _time_axis(axes, 1, 20)
    _note(axes, 0, 3.05, "process_element registers timers")
    for second, key in ((3, "a"), (7, "b"), (11, "a"), (16, "b")):
        fired = second <= 12
        axes.plot([second, second], [1, 1.8], color=KEYS[key] if fired else GREY)
        _record(axes, second, 1.9, key, KEYS[key] if fired else GREY)
    axes.plot([12, 12], [0.4, 3.9], color=GREEN, lw=2)
    _note(axes, 12.2, 4, "watermark 12")
    _note(axes, 12.6, 3.05, "one per key and time, however often registered")
    _note(axes, 0, -0.4, "on_timer(3) of a, on_timer(7) of b, on_timer(11) of a; then the watermark goes on")
    _note(axes, 16.6, 1.9, "waits")
    _limits(axes, (-0.5, 26), (-0.9, 4.4))


def async_io(axes: Axes) -> None:
    """Calls overlap; results leave in the order of the records, or as they come."""
    calls = [("1", 0, 6), ("2", 1, 3), ("3", 2, 5)]
    for row, (name, start, end) in enumerate(calls):
        _box(axes, start, 5 - row, end - start, 0.7, f"call {name}", BLUE)
    for row, (title, leaves) in enumerate(
        (("unordered", [(3, "2"), (5, "3"), (6, "1")]), ("ordered", [(6, "1"), (6.55, "2"), (7.1, "3")]))
    ):
        _note(axes, -2.6, 1.9 - row, title)
        for at, name in leaves:
            _record(axes, at, 1.9 - row, name, GREEN)
    _arrow(axes, (-0.2, 0.1), (8, 0.1), GREY)
    _note(axes, 8.1, 0.1, "time")
    _note(axes, 8.1, 4.3, "capacity: how many at once")
    _limits(axes, (-2.8, 13), (-0.4, 6))


def columns(axes: Axes) -> None:
    """A list of records, and the same records as an Arrow batch."""
    rows = [("a", 3), ("b", 5), ("a", 1), ("c", 4)]
    _note(axes, 0, 5.6, "rows: one call for each")
    for row, (key, value) in enumerate(rows):
        _box(axes, 0, 4.4 - row * 1.0, 4.4, 0.75, f"('{key}', {value})", KEYS[key])
    _note(axes, 9, 5.6, "columns: one call for the batch")
    for column, (name, kind) in enumerate((("k", "string"), ("v", "int64"))):
        _box(axes, 9 + column * 3, 0.2, 2.6, 4.95, "", GREY)
        axes.text(10.3 + column * 3, 4.75, f"{name}: {kind}", ha="center", va="center", color=INK)
        for row, each in enumerate(rows):
            axes.text(
                10.3 + column * 3, 3.9 - row, str(each[column]), ha="center", va="center", color=KEYS[each[0]]
            )
    _arrow(axes, (15.2, 2.6), (17, 2.6))
    _box(axes, 17.1, 1.6, 5.6, 2, "sum(v) by k\na 4   b 5   c 4", GREEN)
    _limits(axes, (-0.4, 23.2), (-0.1, 6.1))


def _limits(axes: Axes, x: tuple[float, float], y: tuple[float, float]) -> None:
    axes.set_xlim(*x)
    axes.set_ylim(*y)


PICTURES: dict[str, Callable[[Axes], None]] = {
    "async-io": async_io,
    "columns": columns,
    "job": job,
    "joins": joins,
    "partitioning": partitioning,
    "timers": timers,
    "watermarks": watermarks,
    "windows": windows,
}


def draw(directory: Path, kind: str) -> None:
    """Draw every picture into a directory, as `svg` or `png` files."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tidegate", "font.size": 9})
    import matplotlib.pyplot as plt

    directory.mkdir(parents=True, exist_ok=True)
    for name, draw_one in PICTURES.items():
        figure, axes = plt.subplots(figsize=(9, 3.4))
        axes.axis("off")
        draw_one(axes)
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(directory / f"{name}.{kind}", bbox_inches="tight", metadata=metadata)
        plt.close(figure)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        draw(Path(sys.argv[1]), "png")
    else:
        draw(PICTURES_DIR, "svg")
