"""The LMDB environment: growth, compaction, sweeping, errors, and turns with the task's loop."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tidegate.common.errors import CheckpointStorageError, StateError
from tidegate.common.time import Time
from tidegate.common.typeinfo import Types
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.backend import KeyedStateBackendParameters
from tidegate.state.descriptors import ValueStateDescriptor
from tidegate.state.lmdb.environment import LmdbEnvironment, WriteBatch
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.state.ttl_config import StateTtlConfig

MIB = 1 << 20


def environment(path: Path, map_size_bytes: int = MIB) -> LmdbEnvironment:
    return LmdbEnvironment(str(path / "state"), map_size_bytes, "running total")


def put(env: LmdbEnvironment, keys: range, size_bytes: int = 1_000) -> None:
    env.write(WriteBatch([b"%06d" % key for key in keys], [bytes(size_bytes)] * len(keys), []))


def delete(env: LmdbEnvironment, keys: range) -> None:
    env.write(WriteBatch([], [], [b"%06d" % key for key in keys]))


def test_the_file_is_compacted_when_much_of_it_is_free_and_readers_see_no_change(tmp_path: Path) -> None:
    env = environment(tmp_path)
    put(env, range(30_000))
    assert not env.compact_if_grown()
    delete(env, range(1_000, 30_000))
    grown = env.size()
    assert grown.file_bytes > 20 * MIB > 2 * grown.live_bytes
    assert env.compact_if_grown()
    compacted = env.size()
    assert compacted.file_bytes <= 1.1 * compacted.live_bytes < 2 * MIB
    assert [len(env.get(b"%06d" % key) or b"") for key in (0, 999)] == [1_000, 1_000]
    assert env.get(b"001000") is None
    put(env, range(1_000, 60_000))
    assert env.get(b"059999") == bytes(1_000)
    files = list(tmp_path.rglob("data.mdb"))
    env.close()
    assert len(files) == 1
    assert not list(tmp_path.rglob("data.mdb"))


def mapped_bytes(path: Path) -> int:
    """How much of the files below a directory is mapped and resident."""
    resident, is_below = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(maxsplit=1)[0]:
            is_below = str(path) in line
        elif is_below and line.startswith("Rss:"):
            resident += int(line.split()[1]) << 10
    return resident


@pytest.mark.slow
def test_reading_all_of_a_large_file_leaves_little_of_it_mapped(tmp_path: Path) -> None:
    env = LmdbEnvironment(str(tmp_path / "state"), 64 * MIB, "running total", mapped_bytes=4 * MIB)
    put(env, range(30_000))
    assert env.size().file_bytes > 30 * MIB
    for start in range(0, 30_000, 50):
        assert len(env.get_many([b"%06d" % key for key in range(start, start + 60)])) == min(
            60, 30_000 - start
        )
        if start % 500 == 0:
            assert mapped_bytes(tmp_path) < 16 * MIB
    for key in range(0, 30_000, 7):
        assert env.get(b"%06d" % key) == bytes(1_000)
    assert mapped_bytes(tmp_path) < 16 * MIB
    env.close()


def test_readers_on_another_thread_live_through_growth_and_compaction(tmp_path: Path) -> None:
    env = environment(tmp_path, map_size_bytes=1 << 16)
    put(env, range(100))
    stop, wrong = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            if env.get(b"000050") != bytes(1_000) or len(env.scan(b"00000", b"", 20)) != 10:
                wrong.append(1)

    reader = threading.Thread(target=read)
    reader.start()
    compactions = 0
    for _ in range(3):
        put(env, range(100, 20_000))
        delete(env, range(100, 20_000))
        compactions += env.compact_if_grown()
    stop.set()
    reader.join()
    env.close()
    assert not wrong
    assert compactions == 3


def test_overwriting_everything_in_pieces_reuses_pages(tmp_path: Path) -> None:
    env = environment(tmp_path)
    for _ in range(5):
        for start in range(0, 100_000, 10_000):
            put(env, range(start, start + 10_000), 100)
    size = env.size()
    env.close()
    assert size.file_bytes < 1.5 * size.live_bytes


def test_a_sweep_goes_round_and_removes_what_is_to_be_dropped(tmp_path: Path) -> None:
    env = environment(tmp_path)
    put(env, range(100))
    seen: list[bytes] = []

    def is_odd(key: bytes, value: bytes) -> bool:
        seen.append(key)
        assert value == bytes(1_000)
        return key[-1] % 2 == 1

    assert [env.sweep(40, is_odd) for _ in range(3)] == [20, 20, 10]
    assert len(seen) == 100
    assert [env.sweep(60, is_odd) for _ in range(2)] == [0, 0]
    # Fifty are left: each call looked at all of them, and at none twice.
    assert len(seen) == 200
    assert len(env.scan(b"0000", b"", 200)) == 50
    env.close()


def test_a_sweep_of_an_empty_environment_does_nothing(tmp_path: Path) -> None:
    env = environment(tmp_path)
    assert env.sweep(10, lambda key, value: True) == 0
    env.close()


def test_a_map_larger_than_the_address_space_names_operator_path_and_sizes(tmp_path: Path) -> None:
    with pytest.raises(CheckpointStorageError) as raised:
        environment(tmp_path, map_size_bytes=1 << 60)
    message = str(raised.value)
    assert "'running total'" in message
    assert str(tmp_path) in message
    assert "map of 1,099,511,627,776.0 MiB" in message
    assert "free on disk" in message


def test_the_loop_stands_aside_while_a_piece_is_written(tmp_path: Path) -> None:
    env = environment(tmp_path)
    turns = env.turns
    assert turns.may_process()
    written = threading.Event()

    def write() -> None:
        put(env, range(1_000))
        written.set()

    writer = threading.Thread(target=write)
    writer.start()
    refusals = 0
    while not written.is_set():
        refusals += not turns.may_process()
    writer.join()
    env.close()
    assert refusals > 0
    assert turns.may_process()


def test_a_writer_does_not_wait_for_a_loop_on_its_own_thread(tmp_path: Path) -> None:
    env = environment(tmp_path)
    assert env.turns.may_process()
    with env.turns.writing():
        assert not env.turns.may_process()
    assert env.turns.may_process()
    env.close()


def test_the_loop_has_a_batch_between_two_pieces(tmp_path: Path) -> None:
    env = environment(tmp_path)
    turns = env.turns
    with turns.writing():
        pass
    with turns.writing():
        # The writer did not wait, since nobody had asked: the batch of before is still due.
        assert turns.may_process()
        assert not turns.may_process()
    env.close()


def test_expired_entries_leave_the_file_with_the_checkpoints(tmp_path: Path) -> None:
    now_ms = [1_000]
    config = (
        StateTtlConfig.new_builder(Time.milliseconds(100))
        .set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)
        .cleanup_in_rocksdb_compact_filter(1_000)
        .build()
    )
    short = ValueStateDescriptor("short", Types.LONG())
    short.enable_time_to_live(config)
    place = KeyedStateBackendParameters(
        "uid", "op", 0, 0, 8, KeyGroupRange(0, 7), None, str(tmp_path), None, "p", lambda: now_ms[0]
    )
    backend = LmdbStateBackend(memory_size_bytes=1).create_keyed_backend(place)
    state = backend.get_value_state(short)
    lasting = backend.get_value_state(ValueStateDescriptor("lasting", Types.LONG()))
    for key in range(10):
        backend.current_key = key
        state.update(key)
        lasting.update(key)
        _ = backend.needs_spill
    backend.freeze().persist()
    now_ms[0] += 100
    # Nobody looks at them, and yet they go: behind one checkpoint, at the latest before the next.
    backend.freeze().persist()
    _ = backend.needs_spill
    backend.freeze().persist()
    # The last keys may still be cached.
    for key in range(6):
        backend.current_key = key
        assert state.value() is None
        assert lasting.value() == key
    backend.close()


def test_a_backend_that_is_closed_before_its_checkpoint_is_stored_leaves_no_thread(tmp_path: Path) -> None:
    place = KeyedStateBackendParameters(
        "uid", "op", 0, 0, 8, KeyGroupRange(0, 7), None, str(tmp_path), None, "p", lambda: 0
    )
    backend = LmdbStateBackend().create_keyed_backend(place)
    state = backend.get_value_state(ValueStateDescriptor("count", Types.LONG()))
    backend.current_key = 1
    state.update(1)
    frozen = backend.freeze()
    before = set(threading.enumerate())
    backend.close()
    with pytest.raises(StateError, match=r"'op'.*closed"):
        frozen.persist()
    assert set(threading.enumerate()) <= before


TRUNCATED = """
import os, sys
from tidegate.common.errors import CheckpointStorageError
from tidegate.state.lmdb.environment import LmdbEnvironment, WriteBatch

environment = LmdbEnvironment(sys.argv[1], 1 << 24, "count")
keys = [b"%04d" % number for number in range(1_000)]
batch = WriteBatch(keys, [bytes(1_000)] * len(keys), [])
environment.write(batch)
assert environment.get(b"0999")
os.truncate(os.path.join(sys.argv[1], "0", "data.mdb"), int(sys.argv[2]))
for use in (
    lambda: environment.get(b"0999"),
    lambda: environment.get_many(keys),
    lambda: environment.scan(b"", b"", 1_000),
    lambda: environment.write(batch),
    lambda: environment.sweep(1_000, lambda key, value: True),
    lambda: environment.size(),
    lambda: environment.compact_if_grown(),
):
    try:
        use()
    except CheckpointStorageError as error:
        print(error)
environment.close()
"""


@pytest.mark.parametrize("size_bytes", [0, 8_192])
def test_a_truncated_file_is_an_error_that_names_it_and_not_the_end_of_the_process(
    tmp_path: Path, size_bytes: int
) -> None:
    command = [sys.executable, "-c", TRUNCATED, str(tmp_path / "state"), str(size_bytes)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    lines = done.stdout.splitlines()
    assert len(lines) == 7
    for line in lines:
        assert "operator 'count'" in line
        assert f"{tmp_path / 'state' / '0' / 'data.mdb'} of its local state was truncated" in line
        assert f"it has {size_bytes:,} bytes" in line
