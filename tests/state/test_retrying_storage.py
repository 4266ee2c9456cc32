from __future__ import annotations

import pickle
import threading
from collections.abc import Callable

import pytest
from tidegate.common.errors import CheckpointStorageError, CorruptCheckpointError
from tidegate.protocol.checkpoints.handles import FileHandle
from tidegate.state.storage.checkpoint_storage import CheckpointStorage, TransientStorageError, open_storage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage
from tidegate.state.storage.retrying_storage import RetryingStorage, ThreadClock, retries_stop_at


class VirtualClock:
    """Remembers the pauses, and lets no time pass otherwise."""

    def __init__(self) -> None:
        self.pauses: list[int] = []

    def now_ms(self) -> float:
        return float(sum(self.pauses))

    def fraction(self) -> float:
        return 1.0

    def pause(self, delay_ms: int) -> None:
        self.pauses.append(delay_ms)


class FlakyStorage(MemoryCheckpointStorage):
    """Fails as often as configured; `loses_answers` lets it create files all the same."""

    failures = 0
    loses_answers = False
    error: type[CheckpointStorageError] = TransientStorageError

    def _fail(self, path: str) -> None:
        if self.failures:
            self.failures -= 1
            raise self.error(f"{path}: no answer")

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        self._fail(path)
        return super().write_file(path, data)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        if self.loses_answers and self.failures:
            super().create_exclusive(path, data)
        self._fail(path)
        return super().create_exclusive(path, data)

    def read(self, path: str) -> bytes:
        self._fail(path)
        return super().read(path)

    def list_files(self, prefix: str) -> list[str]:
        self._fail(prefix)
        return super().list_files(prefix)


@pytest.fixture
def flaky() -> FlakyStorage:
    return FlakyStorage()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def retrying(flaky: FlakyStorage, clock: VirtualClock) -> RetryingStorage:
    return RetryingStorage(flaky, clock=clock)


@pytest.mark.parametrize(
    "operate",
    [
        lambda place: place.write_file("a", b"x"),
        lambda place: place.create_exclusive("b", b"x"),
        lambda place: place.read("kept"),
        lambda place: place.read_file(FileHandle("kept", 1, _SHA256)),
        lambda place: place.list_files("dir"),
    ],
)
def test_an_operation_is_repeated_until_it_succeeds(
    flaky: FlakyStorage,
    clock: VirtualClock,
    retrying: RetryingStorage,
    operate: Callable[[CheckpointStorage], object],
) -> None:
    flaky.write_file("kept", b"x")
    flaky.failures = 3
    operate(retrying)
    assert flaky.failures == 0
    assert clock.pauses == [100, 200, 400]


_SHA256 = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"


def test_when_retries_are_exhausted_the_error_names_file_and_tries(
    flaky: FlakyStorage, retrying: RetryingStorage
) -> None:
    flaky.failures = 1_000
    with pytest.raises(CheckpointStorageError, match=r"shared/x: no answer \(tried 8 times within 7.1 s\)"):
        retrying.read("shared/x")
    assert flaky.failures == 992


def test_what_stays_as_it_is_fails_at_once(
    flaky: FlakyStorage, clock: VirtualClock, retrying: RetryingStorage
) -> None:
    flaky.error, flaky.failures = CheckpointStorageError, 1
    with pytest.raises(CheckpointStorageError, match="no answer"):
        retrying.write_file("a", b"x")
    flaky.write_file("a", b"damaged")
    with pytest.raises(CheckpointStorageError, match="no file"):
        retrying.read("b")
    with pytest.raises(CorruptCheckpointError):
        retrying.read_file(FileHandle("a", 7, _SHA256))
    assert clock.pauses == []


def test_a_file_that_was_created_although_the_answer_was_lost_is_the_callers(
    flaky: FlakyStorage, retrying: RetryingStorage
) -> None:
    flaky.loses_answers, flaky.failures = True, 1
    assert retrying.create_exclusive("chk-1/MANIFEST", b"mine")
    assert not retrying.create_exclusive("chk-1/MANIFEST", b"mine"), "the second call repeats nothing"


def test_a_file_that_another_caller_created_meanwhile_is_not_the_callers(
    flaky: FlakyStorage, retrying: RetryingStorage
) -> None:
    flaky.create_exclusive("ids/256", b"another")
    flaky.failures = 1
    assert not retrying.create_exclusive("ids/256", b"mine")
    flaky.create_exclusive("mark", b"")
    flaky.failures = 1
    assert not retrying.create_exclusive("mark", b""), "an empty file says nothing about who created it"


def test_each_deleted_file_has_its_own_tries(flaky: FlakyStorage, clock: VirtualClock) -> None:
    class Refusing(FlakyStorage):
        def delete(self, paths: object) -> None:
            (path,) = paths  # type: ignore[misc]
            self._fail(path)
            super().delete([path])

    place = Refusing()
    paths = [f"f{number}" for number in range(20)]
    for path in paths:
        place.write_file(path, b"")
    place.failures = 5
    RetryingStorage(place, clock=clock).delete(iter(paths))
    assert place.list_files("") == []


def test_a_pause_ends_when_the_task_is_cancelled() -> None:
    is_cancelled = threading.Event()
    is_cancelled.set()
    with retries_stop_at(is_cancelled), pytest.raises(CheckpointStorageError, match="cancelled"):
        ThreadClock().pause(1_000_000_000)


def test_a_retrying_storage_can_be_sent(tmp_path: object) -> None:
    place = open_storage(str(tmp_path))
    place.write_file("a", b"x")
    sent = pickle.loads(pickle.dumps(place))
    assert isinstance(sent, RetryingStorage)
    assert sent.read("a") == b"x"
