"""Divides a batch among channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..operators.batch_selection import selected
from ..operators.columnar.columns import Int64s
from ..protocol.elements import Batch
from .output import OutputChannel


def scatter(batch: Batch, targets: Int64s, channels: Sequence[OutputChannel]) -> None:
    """Give each channel the records, in their order, that `targets` assigns to it.

    The records are sorted by channel once. Parts of a batch of columns refer to the memory of the result.
    They are copied when they are joined with others or sent: otherwise one part would keep the memory of all.

    Args:
        targets: The index of each record's channel.
    """
    if not len(batch):
        return
    order = np.argsort(targets.astype(np.uint16), kind="stable")
    bounds = np.searchsorted(targets[order], range(len(channels) + 1)).tolist()
    ordered = selected(batch, order)
    for target, channel in enumerate(channels):
        start, end = bounds[target], bounds[target + 1]
        if start < end:
            channel.add_batch(ordered.part(start, end))
