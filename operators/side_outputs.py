"""The results of user functions: what goes to the main output, and what to side outputs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

from ..common.output_tag import OutputTag
from ..protocol.elements import Batch, RowBatch
from .output import Output


def emit_results(output: Output, results: list[Any], timestamps: Sequence[int] | None) -> None:
    """Send results on: those of the form `(OutputTag, value)` to side outputs, others to the main one.

    Args:
        results: Results of a process function, in order.
        timestamps: One event time in milliseconds for each, or `None` if they have none.
    """
    main = split_side_results(output, results, timestamps)
    if main is not None and len(main):
        output.emit(main)


def split_side_results(output: Output, results: list[Any], timestamps: Sequence[int] | None) -> Batch:
    """Emit what is for side outputs, and return the rest."""
    if not OutputTag.was_used:
        return RowBatch(results, timestamps)
    is_main = [not _is_side_result(result) for result in results]
    if all(is_main):
        return RowBatch(results, timestamps)
    sides: dict[str, tuple[list[Any], list[int]]] = {}
    for position, is_one in enumerate(is_main):
        if not is_one:
            tag, value = results[position]
            values, times = sides.setdefault(tag.tag_id, ([], []))
            values.append(value)
            if timestamps is not None:
                times.append(timestamps[position])
    for tag_id, (values, times) in sides.items():
        output.emit_side(tag_id, RowBatch(values, None if timestamps is None else times))
    kept = None if timestamps is None else list(compress(timestamps, is_main))
    return RowBatch(list(compress(results, is_main)), kept)


def _is_side_result(result: Any) -> bool:
    return type(result) is tuple and len(result) == 2 and type(result[0]) is OutputTag
