"""Records that come too late, and are dropped because nobody takes them."""

from __future__ import annotations

import logging
from typing import Any

from .base import OperatorContext

logger = logging.getLogger("tidegate")

METRIC = "numLateRecordsDropped"
"""Name of the counter, as in Flink."""


class LateRecords:
    """Counts the dropped records of one subtask, in the metrics of its operator; warns of the first.

    Args:
        context: Of the operator.
        advice: For the warning: why they are dropped, and what keeps them.
    """

    def __init__(self, context: OperatorContext, advice: str) -> None:
        self._where = f"operator {context.name_with_subtask}"
        self._advice = advice
        self._counter = context.metrics.counter(METRIC)

    @property
    def count(self) -> int:
        """How many were dropped."""
        return self._counter.get_count()

    def drop(self, count: int, example: Any) -> None:
        """Drop some records, such as this one."""
        if not self.count:
            logger.warning("%s drops records %s; one is %.200r", self._where, self._advice, example)
        self._counter.inc(count)

    def close(self) -> None:
        """Say how many there were."""
        if self.count:
            logger.info("%s dropped %d late records", self._where, self.count)
