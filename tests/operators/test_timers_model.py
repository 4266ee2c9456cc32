"""Timers do what a plain list of them would do, over snapshots, restores and changes of parallelism."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.protocol.key_groups import key_group_range_of_subtask
from tidegate.protocol.redistribution import redistribute
from tidegate.state.backend import HashMapStateBackend, StateBackend
from tidegate.state.inline_storage import InlineStorage
from tidegate.state.key_hashing import key_group_of
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.state.memory_storage import MemoryCheckpointStorage

from tests.operators.harness import OperatorUnderTest
from tests.operators.test_timers import Alarms, fired

Model = set[tuple[str, int, Any, Any]]
KEYS = [1, 2, 3]
TIMES = st.integers(min_value=0, max_value=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["register", "register", "register", "delete"]),
            st.sampled_from(["event", "processing"]),
            st.sampled_from(KEYS),
            TIMES,
            st.sampled_from(["w1", ("w", 2)]),
        ),
        st.tuples(st.just("advance"), st.sampled_from(["event", "processing"]), TIMES),
        st.tuples(st.just("snapshot")),
        st.tuples(st.just("restore"), st.integers(min_value=1, max_value=3)),
    ),
    min_size=10,
    max_size=60,
)


class Job:
    """All subtasks of one operator with timers, and the model of what they should do."""

    def __init__(self, backend: StateBackend, namespaced: bool, local_dirs: Iterator[str]) -> None:
        self._backend, self._namespaced, self._local_dirs = backend, namespaced, local_dirs
        self._storage = InlineStorage(MemoryCheckpointStorage(), 1 << 20)
        self._attempt = 0
        self._checkpoint_id = 0
        self.subtasks: list[OperatorUnderTest[Alarms]] = []
        self.live: Model = set()
        self.now = {"event": -1, "processing": -1}
        self._stored: tuple[Model, list[Any]] | None = None
        self._start(1, None)

    def _start(self, parallelism: int, snapshots: Any) -> None:
        self._attempt += 1
        self.close()
        self.subtasks = [
            OperatorUnderTest(
                Alarms(self._namespaced),
                restored=None if snapshots is None else snapshots[index],
                storage=self._storage,
                subtask_index=index,
                parallelism=parallelism,
                attempt=self._attempt,
                state_backend=self._backend,
                local_dir=next(self._local_dirs),
            )
            for index in range(parallelism)
        ]
        for test in self.subtasks:
            test.now_ms = self.now["processing"]
            test.open()

    def close(self) -> None:
        for test in self.subtasks:
            test.operator.close()

    def _owner(self, key: Any) -> OperatorUnderTest[Alarms]:
        group = key_group_of(key, 128)
        count = len(self.subtasks)
        ranges = [key_group_range_of_subtask(index, 128, count) for index in range(count)]
        (index,) = [index for index, groups in enumerate(ranges) if groups.contains(group)]
        return self.subtasks[index]

    def change(self, what: str, domain: str, key: Any, time: int, namespace: Any) -> None:
        namespace = namespace if self._namespaced else None
        test = self._owner(key)
        test.operator.keyed.current_key = key
        getattr(test.operator.timers, f"{what}_{domain}_time_timer")(namespace, time)
        test.operator.keyed.current_key = None
        if what == "register":
            self.live.add((domain, time, key, namespace))
        else:
            self.live.discard((domain, time, key, namespace))

    def advance(self, domain: str, time: int) -> None:
        is_new = time > self.now[domain]
        time = self.now[domain] = max(time, self.now[domain])
        seen = []
        for test in self.subtasks:
            if domain == "event":
                test.operator.process_watermark(time)
            else:
                test.advance_to(time)
            of_subtask = fired(test)
            assert [each[1] for each in of_subtask] == sorted(each[1] for each in of_subtask)
            seen += of_subtask
        due = {each for each in self.live if each[0] == domain and each[1] <= time}
        if domain == "event" and not is_new:
            # The watermark did not rise.
            due = set()
        assert len(seen) == len(set(seen))
        assert set(seen) == due
        self.live -= due

    def snapshot(self) -> None:
        self._checkpoint_id += 1
        snapshots = [test.checkpoint(self._checkpoint_id) for test in self.subtasks]
        self._stored = set(self.live), snapshots

    def restore(self, parallelism: int) -> None:
        if self._stored is not None:
            live, snapshots = self._stored
            # Processing time goes on; event time starts anew.
            self.live, self.now = set(live), {"event": -1, "processing": self.now["processing"]}
            self._start(parallelism, redistribute(snapshots, parallelism, 128))


@contextmanager
def local_dirs() -> Iterator[Iterator[str]]:
    with ExitStack() as stack:
        yield (stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(1_000))


@pytest.mark.parametrize("backend", [HashMapStateBackend(), LmdbStateBackend()], ids=["memory", "lmdb"])
@pytest.mark.parametrize("namespaced", [False, True])
def test_timers_behave_like_a_plain_set_of_them(backend: StateBackend, namespaced: bool) -> None:
    @settings(max_examples=50 if isinstance(backend, HashMapStateBackend) else 8, deadline=None)
    @given(STEPS)
    def check(steps: list[tuple[Any, ...]]) -> None:
        with local_dirs() as directories:
            job = Job(backend, namespaced, directories)
            for what, *how in steps:
                if what in ("register", "delete"):
                    job.change(what, *how)
                else:
                    getattr(job, what)(*how)
            job.advance("processing", 100)
            job.advance("event", 100)
            assert job.live == set()
            job.close()

    check()
