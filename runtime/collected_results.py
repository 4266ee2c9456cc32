"""Hands collected records to the coordinator, and waits when the driver does not take them."""

from __future__ import annotations

from typing import Any

from ..protocol.elements import RowBatch
from ..protocol.task_events import ResultsCollected
from .ports import TaskDeployment, TaskPorts


class CoordinatorResults:
    """The `ResultPort` of one subtask: bounded by what the driver has not taken yet."""

    def __init__(self, deployment: TaskDeployment, ports: TaskPorts) -> None:
        self._deployment = deployment
        self._ports = ports
        self._outstanding_bytes = 0
        self._unconfirmed = 0

    def offer(self, key: str, values: list[Any]) -> None:
        """Send records to the coordinator; `key` tells a repeated delivery."""
        payload, size_bytes = self._ports.encode([RowBatch(values)])
        self._outstanding_bytes += size_bytes
        self._unconfirmed += 1
        self._ports.report(
            ResultsCollected(self._deployment.attempt, self._deployment.subtask_id, key, payload, size_bytes)
        )

    def has_credit(self) -> bool:
        """Whether less than the bound is with the driver."""
        return self._outstanding_bytes < self._deployment.settings.result_credit_bytes

    def taken(self, size_bytes: int) -> None:
        """The driver took results."""
        self._outstanding_bytes -= size_bytes
        self._unconfirmed -= 1

    def unconfirmed(self) -> int:
        """Offers that the driver has not taken; it takes them in their order."""
        return self._unconfirmed
