"""PyFlink's name for the backend on local disk, with its setters. Behind it is LMDB."""

from __future__ import annotations

import enum

from ..common.errors import ConfigurationError
from .lmdb_backend import LmdbStateBackend


class PredefinedOptions(enum.Enum):
    """Flink's sets of RocksDB options; LMDB has nothing to set for them."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(LmdbStateBackend):
    """`LmdbStateBackend` with PyFlink's constructor and setters.

    Args:
        enable_incremental_checkpointing: Accepted for Flink's sake; checkpoints are always incremental.
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        super().__init__()
        self._is_incremental = enable_incremental_checkpointing is not False
        self._paths: tuple[str, ...] = ()
        self._predefined = PredefinedOptions.DEFAULT
        self._options_factory: str | None = None
        self._transfer_threads = 4

    def is_incremental_checkpoints_enabled(self) -> bool:
        """What the constructor was told; it makes no difference here."""
        return self._is_incremental

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the directory for local state, as `tidegate.local-dir` does.

        Raises:
            ConfigurationError: More than one was given: spreading over disks is left to the file system.
        """
        if len(paths) > 1:
            raise ConfigurationError(
                f"local state goes to one directory, but {len(paths)} were given; give one, on a volume "
                f"that spans the disks"
            )
        self._paths = paths

    def get_db_storage_paths(self) -> list[str] | None:
        """The directory that was set, or None."""
        return list(self._paths) or None

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Remember a set of options; LMDB has nothing to tune for the kind of disk."""
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """The set of options that was set."""
        return self._predefined

    def set_options(self, options_factory_class_name: str) -> None:
        """Remember the name of a Java class that would tune RocksDB; without effect."""
        self._options_factory = options_factory_class_name

    def get_options(self) -> str | None:
        """The name that was set, or None."""
        return self._options_factory

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Remember a number of threads; without effect, a snapshot is written by one."""
        self._transfer_threads = number_of_transfering_threads

    def get_number_of_transfer_threads(self) -> int:
        """The number that was set."""
        return self._transfer_threads
