"""Runs the enumerator of one source in one attempt, on the coordinator's thread."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..common.errors import ConfigurationError, StateMigrationError, TidegateError
from ..operators.sources.enumerators import AsyncHandler, SplitEnumerator
from ..operators.sources.sources import Source
from ..protocol.ids import CheckpointId
from ..protocol.scheduling.plan import StreamNode
from ..protocol.source_events import (
    CoordinatorEvent,
    NoMoreSplits,
    ReaderEvent,
    ReaderStarted,
    SourceEventSent,
    SplitRequested,
    SplitsAssigned,
)
from ..state.serializers.pickling import dumps


@dataclass(frozen=True)
class HostPorts:
    """What a host may ask of its surroundings.

    Attributes:
        send: Something to the reader in a subtask.
        schedule: Run an action on the coordinator's thread in so many milliseconds.
        run_async: Run work in another thread.
        post: Run an action on the coordinator's thread, from any thread.
        fail: The enumerator failed: why, and whether a restart may help.
    """

    send: Callable[[int, CoordinatorEvent], None]
    schedule: Callable[[int, Callable[[], None]], None]
    run_async: Callable[[Callable[[], None]], None]
    post: Callable[[Callable[[], None]], None]
    fail: Callable[[str, bool], None]


class EnumeratorHost:
    """One enumerator, what it may call, and what it said at which checkpoint."""

    def __init__(self, node: StreamNode, source: Source, ports: HostPorts) -> None:
        self._node = node
        self._source = source
        self._ports = ports
        self._readers: dict[int, tuple[Any, ...]] = {}
        self._ended: set[int] = set()
        self._enumerator: SplitEnumerator | None = None
        self._is_over = False

    def run(self, restored: Mapping[int, tuple[Any, ...]], state: bytes | None) -> bool:
        """All readers are open: create the enumerator, give it back their splits, tell it of them.

        Args:
            restored: The splits that each reader had in the restored checkpoint.
            state: What the checkpoint holds of the enumerator.

        Returns:
            Whether it runs now.
        """
        self._readers = dict(restored)
        self._guarded("create_enumerator()", lambda: self._create(state))
        enumerator = self._enumerator
        if enumerator is None:
            return False
        self._guarded("start()", enumerator.start)
        for index in sorted(restored):
            if restored[index]:
                splits = list(restored[index])
                self._guarded("add_splits_back()", lambda: enumerator.add_splits_back(splits, index))  # noqa: B023
        for index in sorted(restored):
            self._guarded("add_reader()", lambda: enumerator.add_reader(index))  # noqa: B023
        return not self._is_over

    def _create(self, state: bytes | None) -> None:
        if state is not None:
            self._enumerator = self._source.restore_enumerator(self, pickle.loads(state))
            return
        if any(self._readers.values()):
            raise StateMigrationError(
                "the restored checkpoint holds splits of readers, but no state of an enumerator: the source "
                "had none then. Give the operator a new uid() to start it afresh"
            )
        self._enumerator = self._source.create_enumerator(self)

    def handle(self, subtask_id: int, event: ReaderEvent) -> None:
        """The reader in a subtask said something."""
        assert not isinstance(event, ReaderStarted), "a reader starts before its enumerator"
        enumerator = self._enumerator
        if enumerator is None:
            return
        if isinstance(event, SplitRequested):
            self._guarded("handle_split_request()", lambda: enumerator.handle_split_request(subtask_id))
        elif isinstance(event, SourceEventSent):
            sent = event.event
            self._guarded("handle_source_event()", lambda: enumerator.handle_source_event(subtask_id, sent))

    def snapshot(self, checkpoint_id: CheckpointId) -> bytes:
        """The enumerator's state now. Raises what the enumerator raises."""
        if self._enumerator is None:
            raise ConfigurationError(f"operator {self._node.name!r}: its enumerator is gone")
        try:
            return dumps(self._enumerator.snapshot_state(checkpoint_id))
        except Exception as error:
            raise ConfigurationError(self._problem("snapshot_state()", error)) from error

    def complete(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint is complete."""
        enumerator = self._enumerator
        if enumerator is not None:
            self._guarded(
                "notify_checkpoint_complete()", lambda: enumerator.notify_checkpoint_complete(checkpoint_id)
            )

    def close(self) -> str | None:
        """The attempt is over. What went wrong, if anything."""
        self._is_over = True
        enumerator, self._enumerator = self._enumerator, None
        try:
            if enumerator is not None:
                enumerator.close()
        except Exception as error:
            return self._problem("close()", error)
        return None

    def _guarded(self, what: str, action: Callable[[], None]) -> None:
        if self._is_over:
            return
        try:
            action()
        except Exception as error:
            self._is_over = True
            self._ports.fail(self._problem(what, error), not isinstance(error, TidegateError))

    def _problem(self, what: str, error: BaseException) -> str:
        return f"operator {self._node.name!r}: the enumerator's {what} raised {type(error).__name__}: {error}"

    # ------------------------------------------------------------ SplitEnumeratorContext

    def current_parallelism(self) -> int:
        return self._node.parallelism

    def registered_readers(self) -> Sequence[int]:
        return sorted(self._readers)

    def assign_split(self, split: Any, subtask_id: int) -> None:
        self._assign(subtask_id, (split,))

    def assign_splits(self, assignment: Mapping[int, Sequence[Any]]) -> None:
        for subtask_id, splits in assignment.items():
            if splits:
                self._assign(subtask_id, splits)

    def signal_no_more_splits(self, subtask_id: int) -> None:
        self._check(subtask_id)
        if subtask_id not in self._ended:
            self._ended.add(subtask_id)
            self._ports.send(subtask_id, NoMoreSplits())

    def send_event_to_source_reader(self, subtask_id: int, event: Any) -> None:
        self._check(subtask_id)
        self._ports.send(subtask_id, SourceEventSent(event))

    def call_async(
        self,
        call: Callable[[], Any],
        handler: AsyncHandler,
        initial_delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> None:
        if initial_delay_ms < 0 or (period_ms is not None and period_ms <= 0):
            raise ConfigurationError(
                f"call_async() takes a delay of 0 ms or more and a period above, not {initial_delay_ms} and "
                f"{period_ms}"
            )
        self._ports.schedule(initial_delay_ms, lambda: self._begin_call(call, handler, period_ms))

    def _assign(self, subtask_id: int, splits: Iterable[Any]) -> None:
        self._check(subtask_id)
        if subtask_id in self._ended:
            raise ConfigurationError(
                f"subtask {subtask_id} was told that there are no more splits, and now gets one; call "
                f"signal_no_more_splits() only when nothing more will be assigned to it"
            )
        self._ports.send(subtask_id, SplitsAssigned(tuple(splits)))

    def _check(self, subtask_id: int) -> None:
        if subtask_id not in self._readers:
            raise ConfigurationError(
                f"there is no reader in subtask {subtask_id}; those there are: {sorted(self._readers)}"
            )

    def _begin_call(self, call: Callable[[], Any], handler: AsyncHandler, period_ms: int | None) -> None:
        if self._is_over:
            return

        def work() -> None:
            result, problem = None, None
            try:
                result = call()
            except Exception as error:
                problem = error
            self._ports.post(lambda: handle(result, problem))

        def handle(result: Any, problem: BaseException | None) -> None:
            self._guarded("handler of call_async()", lambda: handler(result, problem))
            if period_ms is not None and not self._is_over:
                self._ports.schedule(period_ms, lambda: self._begin_call(call, handler, period_ms))

        self._ports.run_async(work)
