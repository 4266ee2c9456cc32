"""Timers do what a plain list of them would do, over snapshots, restores and changes of parallelism."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tidegate.operators.timers.timers import Timer
from tidegate.protocol.checkpoints.redistribution import redistribute
from tidegate.protocol.key_groups import key_group_range_of_subtask
from tidegate.state.backend import StateBackend
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.state.serializers.key_hashing import key_group_of
from tidegate.state.storage.inline_storage import InlineStorage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from tests.operators.harness import OperatorUnderTest
from tests.operators.test_timers import Alarms, fired

pytestmark = pytest.mark.slow

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
        st.tuples(
            st.just("register_all"),
            st.permutations([1, 2, 3, 4, 5]),
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

    def register_all(self, keys: list[Any], time: int, namespace: Any) -> None:
        namespace = namespace if self._namespaced else None
        for test in self.subtasks:
            own = [key for key in keys if self._owner(key) is test]
            test.operator.timers.register_event_time_timers(own, namespace, time)
            test.operator.keyed.current_key = None
        self.live |= {("event", time, key, namespace) for key in keys}

    def advance(self, domain: str, time: int) -> None:
        is_new = time > self.now[domain]
        time = self.now[domain] = max(time, self.now[domain])
        seen = []
        for test in self.subtasks:
            if domain == "event":
                test.advance_watermark(time)
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
    @settings(max_examples=30 if isinstance(backend, HashMapStateBackend) else 8)
    @given(STEPS)
    def check(steps: list[tuple[Any, ...]]) -> None:
        with local_dirs() as directories:
            job = Job(backend, namespaced, directories)
            for what, *how in steps:
                if what in ("register", "delete"):
                    job.change(what, *how)
                else:
                    getattr(job, what)(*how)
                assert sum(test.operator.timers.count for test in job.subtasks) == len(job.live)
            job.advance("processing", 100)
            job.advance("event", 100)
            assert job.live == set()
            job.close()

    check()


# ---------------------------------------------------------------- what timers do to timers

Change = tuple[str, Any, int]
"""Register or delete, whose timer, and how long after the one that fires; that may be negative."""


Script = dict[tuple[int, int], list[Change]]
"""By time and key of the timer that does it; once."""


class Meddling(Alarms):
    """Each timer changes others, as a script says."""

    script: Script

    def on_event_time(self, timer: Timer) -> None:
        super().on_event_time(timer)
        for what, key, delay in self.script.pop((timer.timestamp, timer.key), ()):
            self.keyed.current_key = key
            getattr(self.timers, f"{what}_event_time_timer")(None, timer.timestamp + delay)
        self.keyed.current_key = timer.key


def expected_order(
    registered: list[tuple[int, int]], script: Script, until: int
) -> tuple[list[tuple[int, int]], set[tuple[int, int]]]:
    """Times and keys as one heap would give them: by time, then in the order of their registration.

    And those that are left.
    """
    numbers = count()
    live: dict[tuple[int, int], int] = {}
    heap: list[tuple[int, int, int]] = []
    seen: list[tuple[int, int]] = []

    def register(time: int, key: int) -> None:
        if (time, key) not in live:
            live[time, key] = number = next(numbers)
            heapq.heappush(heap, (time, number, key))

    for time, key in registered:
        register(time, key)
    while heap and heap[0][0] <= until:
        time, number, key = heapq.heappop(heap)
        if live.get((time, key)) != number:
            continue
        del live[time, key]
        seen.append((time, key))
        for what, other, delay in script.pop((time, key), ()):
            if what == "register":
                register(time + delay, other)
            else:
                live.pop((time + delay, other), None)
    return seen, set(live)


PLACES = st.tuples(st.integers(min_value=0, max_value=5), st.integers(min_value=0, max_value=2))
SCRIPTS = st.dictionaries(
    PLACES,
    st.lists(
        st.tuples(
            st.sampled_from(["register", "delete"]),
            st.integers(min_value=0, max_value=2),
            st.integers(min_value=-1, max_value=3),
        ),
        min_size=1,
        max_size=4,
    ),
    min_size=4,
    max_size=20,
)


@settings(max_examples=40, phases=[Phase.generate])
@given(
    timers=st.lists(PLACES, min_size=4, max_size=30),
    script=SCRIPTS,
    watermarks=st.lists(st.integers(min_value=0, max_value=8), max_size=3),
    others=st.sampled_from([0, 0, 0, 1_500, 6_000]),
)
def test_timers_that_change_timers_fire_in_the_order_of_one_heap(
    timers: list[tuple[int, int]], script: Script, watermarks: list[int], others: int
) -> None:
    # So many are more than are sorted one by one, or fire at once.
    timers = timers + [(number % 7, 100 + number) for number in range(others)]
    test = OperatorUnderTest(Meddling(), parallelism=1).open()
    test.operator.script = {place: list(changes) for place, changes in script.items()}
    for time, key in timers:
        test.operator.keyed.current_key = key
        test.operator.timers.register_event_time_timer(None, time)
    test.checkpoint(1)
    for watermark in sorted(watermarks):
        test.advance_watermark(watermark)
    seen, left = expected_order(timers, dict(script), max(watermarks, default=-1))
    assert [each[1:3] for each in fired(test)] == seen
    assert test.operator.timers.count == len(left)
    restored = OperatorUnderTest(
        Alarms(), restored=test.checkpoint(2), storage=test.storage, parallelism=1
    ).open()
    restored.advance_watermark(1_000)
    assert {each[1:3] for each in fired(restored)} == left
    test.advance_watermark(1_000)
    assert [*seen, *(each[1:3] for each in fired(test))] == expected_order(timers, dict(script), 1_000)[0]
