from __future__ import annotations

import platform

import pytest
from tidegate.common.malloc_trim import trim_memory

MIB = 1 << 20


def resident_mib() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 // MIB


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked")
def test_free_memory_below_memory_in_use_goes_back_to_the_system() -> None:
    blocks = [bytearray(2_000) for _ in range(50_000)]
    # The C library's own way ends at the first block in use from above.
    del blocks[:-1]
    before = resident_mib()
    trim_memory()
    assert before - resident_mib() > 50
