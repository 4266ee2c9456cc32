"""An operator or a backend without a task around it: its context, its checkpoints, and rates."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tidegate.common.typeinfo import TypeInformation
from tidegate.operators.base import OperatorContext, StreamOperator
from tidegate.operators.output import Output, Receiver
from tidegate.operators.timers.processing_time import ProcessingTimeService
from tidegate.protocol.elements import Batch, CheckpointBarrier
from tidegate.protocol.ids import Attempt, CheckpointId
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.backend import KeyedStateBackend, KeyedStateBackendParameters, StateBackend
from tidegate.state.operator.list_storage import OperatorStateBackendParameters
from tidegate.state.operator.operator_state_backend import OperatorStateBackend
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

MAX_PARALLELISM = 128


def prepare_process() -> None:
    """Collector thresholds and switch interval as in a task's process."""
    gc.set_threshold(200_000, 50, 50)
    sys.setswitchinterval(0.001)


def keyed_backend(
    config: StateBackend, key_type: TypeInformation | None, directory: str
) -> KeyedStateBackend:
    """A backend that owns all key groups.

    Args:
        config: Its kind.
        key_type: Of its keys.
        directory: For its files. Checkpoints stay in memory.
    """
    return config.create_keyed_backend(
        KeyedStateBackendParameters(
            operator_uid="bench",
            operator_name="bench",
            subtask_index=0,
            attempt=1,
            max_parallelism=MAX_PARALLELISM,
            key_groups=KeyGroupRange(0, MAX_PARALLELISM - 1),
            key_type=key_type,
            local_dir=directory,
            storage=MemoryCheckpointStorage(),
            file_prefix="bench",
        )
    )


class OneOperator:
    """The only subtask of an operator, opened, with checkpoints on another thread.

    Args:
        operator: The operator.
        backend: Of its keyed state.
        directory: For files of the backend.
        take: Gets each batch of results.
    """

    def __init__(
        self,
        operator: StreamOperator,
        backend: StateBackend,
        directory: str,
        take: Callable[[Batch], None] = lambda batch: None,
    ) -> None:
        self.operator = operator
        self.sync_ms: list[float] = []
        self._executor = ThreadPoolExecutor(1)
        self._last: Future[Any] | None = None
        self._checkpoints = 0
        lists = OperatorStateBackendParameters("bench", "bench", 0, 1, MemoryCheckpointStorage(), "bench")
        context = OperatorContext(
            operator_uid="bench",
            operator_name="bench",
            subtask_index=0,
            parallelism=1,
            max_parallelism=MAX_PARALLELISM,
            attempt=Attempt(1),
            attempt_number=0,
            is_checkpointing=True,
            is_restored=False,
            now_ms=lambda: 0,
            create_keyed_backend=lambda key_type: keyed_backend(backend, key_type, directory),
            operator_state=OperatorStateBackend(lists),
            local_dir=directory,
            results=None,  # type: ignore[arg-type]
            processing_time=ProcessingTimeService(lambda: 0),
            mailbox=lambda action: action(),
        )
        operator.setup(context, Output([Receiver(take, _ignore, _ignore)]))
        operator.open()

    def run(self, inputs: list[Batch], seconds: float) -> float:
        """Process batches again and again, with a checkpoint each second.

        Args:
            inputs: The batches.
            seconds: How long.

        Returns:
            Records per second.
        """
        start = now = checkpointed = time.perf_counter()
        done = at = 0
        while now - start < seconds:
            batch = inputs[at % len(inputs)]
            self.operator.process_batch(batch, 0)
            done, at, now = done + len(batch), at + 1, time.perf_counter()
            if now - checkpointed >= 1 and (self._last is None or self._last.done()):
                self.checkpoint()
                checkpointed = now
        return done / (now - start)

    def checkpoint(self) -> Future[Any]:
        """Take a snapshot, and store it on the other thread."""
        if self._last is not None:
            self._last.result()
        self._checkpoints += 1
        barrier = CheckpointBarrier(CheckpointId(self._checkpoints), 0)
        start = time.perf_counter()
        self.operator.prepare_snapshot(barrier)
        frozen = self.operator.snapshot_state(barrier)
        self.sync_ms.append((time.perf_counter() - start) * 1e3)
        self._last = self._executor.submit(frozen.persist)
        return self._last

    def close(self) -> None:
        """Wait for the last checkpoint, and close the operator."""
        self._executor.shutdown(wait=True)
        self.operator.close()


def _ignore(change: object) -> None:
    """Ignore watermarks and idleness."""
