"""The kinds of checkpoint storage that `open_storage` knows: file systems, and the memory of this process.

Each implementation is imported when its first address is opened.
"""

from __future__ import annotations

from .storage.checkpoint_storage import CheckpointStorage, register_file_systems, register_scheme


def _in_memory(name: str) -> CheckpointStorage:
    from .storage.memory_storage import MemoryCheckpointStorage

    return MemoryCheckpointStorage(name)


def _on_file_system(uri: str, is_synced: bool) -> CheckpointStorage:
    from .storage.filesystem_storage import FileSystemCheckpointStorage
    from .storage.retrying_storage import RetryingStorage

    return RetryingStorage(FileSystemCheckpointStorage(uri, is_synced))


def register() -> None:
    """Let `open_storage` open addresses of these kinds in this process."""
    register_scheme("memory", _in_memory)
    register_file_systems(_on_file_system)
