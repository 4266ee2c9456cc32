"""How a process of a job keeps the memory that it frees.

A batch of columns is buffers of some hundred KiB that live for a moment. By default the C library returns
them to the system as soon as they are free, and each batch has them mapped, zeroed and faulted in anew; and
Arrow's own allocator does the same with the larger tables of a snapshot (docs/adr/053).
"""

from __future__ import annotations

import ctypes
import os

# Of <malloc.h>.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
# Buffers of a batch are smaller. What is larger, such as the table of a dict that grows, goes back at once.
# A received buffer of 4 MiB may lie in memory with the head of its message.
_LARGEST_KEPT_BYTES = (4 << 20) + (64 << 10)
_MOST_FREE_BYTES = 16 << 20
_ITS_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
_ARROWS_SETTING = "ARROW_DEFAULT_MEMORY_POOL"


def keep_freed_memory() -> None:
    """Have this process use freed memory again, up to 16 MiB for each thread's share of the heap.

    What the environment says about glibc's or Arrow's allocators goes before. Other C libraries stay as they
    are, with Arrow's own allocator.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return
    if not any(name in os.environ for name in _ITS_SETTINGS):
        library.mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, _MOST_FREE_BYTES)
    if _ARROWS_SETTING not in os.environ:
        _have_arrow_use_it()


def _have_arrow_use_it() -> None:
    """Arrow reads its setting once, and all of it heeds that; what can be set later only its Python does."""
    os.environ[_ARROWS_SETTING] = "system"
    try:
        import pyarrow as pa

        pa.default_memory_pool()
    finally:
        # Programs that the job starts are none of ours.
        del os.environ[_ARROWS_SETTING]
    pa.set_memory_pool(pa.system_memory_pool())
