"""What a job says of keyed state on local disk: too little memory, and a process that died."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tidegate.coordinator.monitoring.local_state import local_state_hint, memory_warning
from tidegate.state.backend import StateBackend
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.state.rocksdb_backend import EmbeddedRocksDBStateBackend

from .fakes import job_spec


@pytest.mark.parametrize(
    ("backend", "is_warned"),
    [
        (LmdbStateBackend(memory_size_bytes=64 << 10), True),
        (LmdbStateBackend(memory_size_bytes=(1 << 20) - 1), True),
        (LmdbStateBackend(memory_size_bytes=1 << 20), False),
        (EmbeddedRocksDBStateBackend(), False),
        (HashMapStateBackend(), False),
    ],
    ids=["64 kb", "less than 1 MiB", "1 MiB", "default", "hashmap"],
)
def test_less_than_a_mebibyte_of_memory_is_warned_of_by_its_setting(
    backend: StateBackend, is_warned: bool
) -> None:
    warning = memory_warning(replace(job_spec().settings, state_backend=backend))
    assert (warning is not None) == is_warned
    assert warning is None or warning.startswith("tidegate.state.lmdb.memory is ")


def test_a_process_that_died_may_have_lost_its_file_of_local_state() -> None:
    settings = replace(job_spec().settings, state_backend=LmdbStateBackend(), local_dir="/local/here")
    hint = local_state_hint(settings)
    assert "'Fatal Python error: Bus error'" in hint
    assert "data.mdb in /local/here" in hint
    assert local_state_hint(replace(settings, state_backend=HashMapStateBackend())) == ""
