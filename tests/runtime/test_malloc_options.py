"""Memory that a batch frees serves the next, unless the environment wants it otherwise."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked"),
]

PROGRAM = """
import resource
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tidegate.runtime.malloc_options import keep_freed_memory

keep_freed_memory()
numbers = np.arange(65_536)
column = pa.array(numbers)

def batch():
    # Together they are more than glibc keeps by default after blocks of this size.
    return [numbers + field for field in range(8)], [pc.add(column, field) for field in range(8)]

batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, pa.default_memory_pool().backend_name)
"""
ITS_OWN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "ARROW_DEFAULT_MEMORY_POOL")


def faults_and_pool(**settings: str) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if name not in ITS_OWN}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True, text=True, check=False, env={**environment, **settings},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    faults, pool = done.stdout.split()
    return int(faults), pool


def test_a_hundred_batches_touch_the_same_memory() -> None:
    faults, pool = faults_and_pool()
    assert pool == "system"
    # Each batch has sixteen buffers of 128 pages; that there are some at all is the heap growing.
    assert faults < 20_000


def test_the_settings_of_the_c_library_go_before() -> None:
    faults, _ = faults_and_pool(MALLOC_MMAP_THRESHOLD_="100000")
    assert faults > 40_000


def test_the_setting_of_arrow_goes_before() -> None:
    assert faults_and_pool(ARROW_DEFAULT_MEMORY_POOL="mimalloc")[1] == "mimalloc"
