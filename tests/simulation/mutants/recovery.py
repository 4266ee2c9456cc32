"""Bugs in snapshots and restores: what a task stores, when, and what it gets back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tidegate.common.errors import CheckpointStorageError
from tidegate.operators.sources.sources import SourceOperator
from tidegate.protocol.checkpoints import redistribution
from tidegate.protocol.checkpoints.redistribution import BROADCAST, EVEN_SPLIT, UNION
from tidegate.runtime.checkpoints.snapshots import Snapshotter
from tidegate.state.storage.inline_storage import InlineStorage
from tidegate.state.storage.retrying_storage import RetryingStorage

from .base import Mutant


def _acknowledge_before_persist(original: Any) -> Any:
    """The snapshot is persisted into nowhere, acknowledged, and written after that."""

    def start(self: Snapshotter, barrier: Any, started_ms: int, processed_bytes: int = 0) -> None:
        storage = self._deployment.settings.storage
        assert isinstance(storage, InlineStorage)
        late: list[Callable[[], Any]] = []
        mail, self._mail = self._mail, lambda done: mail(done)

        def write_later(path: str, data: Any) -> Any:
            content = bytes(data)
            handle = InlineStorage(storage._storage, None).write_file(path, content)
            threshold = storage._threshold_bytes
            if threshold is not None and len(content) > threshold:
                late.append(lambda: storage._storage.write_file(path, content))
                return replace(handle, data=None)
            return handle

        def write_now() -> None:
            for write in late:
                # Nobody is left who could be told that it failed.
                with contextlib.suppress(CheckpointStorageError):
                    write()

        background = self._ports.run_in_background

        def with_late_writes(persist: Callable[[], None]) -> None:
            def work() -> None:
                storage.write_file = write_later  # type: ignore[method-assign]
                try:
                    persist()
                finally:
                    del storage.write_file  # type: ignore[method-assign]

            background(work)
            background(write_now)

        self._ports.run_in_background = with_late_writes  # type: ignore[method-assign]
        try:
            original(self, barrier, started_ms, processed_bytes)
        finally:
            del self._ports.run_in_background  # type: ignore[method-assign]

    return start


def _freeze_in_background(original: Any) -> Any:
    """What is processed between the barrier and the background work gets into the snapshot."""

    def start(self: Snapshotter, barrier: Any, started_ms: int, processed_bytes: int = 0) -> None:
        self._ports.run_in_background(lambda: original(self, barrier, started_ms, processed_bytes))

    return start


def _positions_forgotten(original: Any) -> Any:
    def snapshot(self: SourceOperator, barrier: Any) -> Any:
        frozen = original(self, barrier)
        self._splits.update([(name, 0) for name, _ in self._splits.get()])
        return replace(frozen, frozen_lists=self.context.operator_state.snapshot())

    return snapshot


def _wrong_key_groups(original: Any) -> Any:
    def wrong(index: int, max_parallelism: int, parallelism: int) -> Any:
        right = original(index, max_parallelism, parallelism)
        return replace(right, end=right.end - 1) if parallelism > 1 else right

    return wrong


def _union_is_split(original: Any) -> Any:
    def parts(per_subtask: Any, mode: str, parallelism: int) -> Any:
        return original(per_subtask, EVEN_SPLIT if mode == UNION else mode, parallelism)

    return parts


def _broadcast_to_one(original: Any) -> Any:
    def parts(per_subtask: Any, mode: str, parallelism: int) -> Any:
        right = original(per_subtask, mode, parallelism)
        return [right[0], *[()] * (parallelism - 1)] if mode == BROADCAST else right

    return parts


def _no_retry(original: Any) -> Any:
    return lambda self, work: work()


def _last_item_lost(original: Any) -> Any:
    def parts(per_subtask: Any, mode: str, parallelism: int) -> Any:
        right = original(per_subtask, mode, parallelism)
        if mode != EVEN_SPLIT or len(per_subtask) == parallelism or not right[-1]:
            return right
        last = right[-1][-1]
        return [*right[:-1], (*right[-1][:-1], replace(last, end=last.end - 1))]

    return parts


MUTANTS = {
    "ack-before-persist": Mutant(
        "a snapshot is acknowledged before its files are written",
        Snapshotter,
        "start",
        _acknowledge_before_persist,
    ),
    "late-freeze": Mutant(
        "state is frozen some time after the barrier", Snapshotter, "start", _freeze_in_background
    ),
    "lost-positions": Mutant(
        "sources store their start instead of their position",
        SourceOperator,
        "snapshot_state",
        _positions_forgotten,
    ),
    "wrong-key-groups": Mutant(
        "a restored subtask misses its last key group",
        redistribution,
        "key_group_range_of_subtask",
        _wrong_key_groups,
    ),
    "union-split": Mutant(
        "union state is split like other lists", redistribution, "redistribute_parts", _union_is_split
    ),
    "broadcast-to-one": Mutant(
        "only the first subtask gets broadcast state back",
        redistribution,
        "redistribute_parts",
        _broadcast_to_one,
    ),
    "no-retry": Mutant(
        "a request to storage whose answer is lost is not repeated", RetryingStorage, "_retried", _no_retry
    ),
    "split-off-by-one": Mutant(
        "a list that is split anew loses its last item", redistribution, "redistribute_parts", _last_item_lost
    ),
}
