"""Where checkpoints go, by PyFlink's names and import path (`pyflink.datastream.checkpoint_storage`)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..common.absent_names import refusal
from ..common.configuration import Configuration
from ..common.errors import ConfigurationError
from ..common.options.options import CheckpointingOptions as Options

__all__ = ["CheckpointStorage", "FileSystemCheckpointStorage", "JobManagerCheckpointStorage"]

__getattr__ = refusal(__name__)


class CheckpointStorage(ABC):
    """A choice that `CheckpointConfig.set_checkpoint_storage` turns into settings.

    Args:
        checkpoint_path: Directory or file system URL; None leaves `execution.checkpointing.dir` as it is.
    """

    def __init__(self, checkpoint_path: str | None = None) -> None:
        self._checkpoint_path = None if checkpoint_path is None else checkpoint_path.rstrip("/") or "/"

    def get_checkpoint_path(self) -> str | None:
        """Directory or URL under which checkpoints are written, if one was given."""
        return self._checkpoint_path

    def configure(self, configuration: Configuration) -> None:
        """Write the choice into a configuration."""
        if self._checkpoint_path is not None:
            configuration.set(Options.CHECKPOINTS_DIRECTORY, self._checkpoint_path)
        self._configure(configuration)

    @abstractmethod
    def _configure(self, configuration: Configuration) -> None: ...


class JobManagerCheckpointStorage(CheckpointStorage):
    """State travels to the coordinator and lies in the manifest, whatever its size up to a limit.

    Unlike in Flink a directory is needed: the coordinator recovers from its manifests.

    Args:
        checkpoint_path: Directory or file system URL of the manifests.
        max_state_size: The most bytes that one file of a state may take.
    """

    DEFAULT_MAX_STATE_SIZE = Options.JOBMANAGER_MAX_STATE_SIZE.default

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        super().__init__(checkpoint_path)
        self._max_state_size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        if self._max_state_size < 1:
            raise ConfigurationError(f"max_state_size is {max_state_size} bytes; it must be at least 1")

    def get_max_state_size(self) -> int:
        """The most bytes that one file of a state may take."""
        return self._max_state_size

    def _configure(self, configuration: Configuration) -> None:
        configuration.set(Options.CHECKPOINT_STORAGE, "jobmanager")
        configuration.set(Options.JOBMANAGER_MAX_STATE_SIZE, self._max_state_size)


class FileSystemCheckpointStorage(CheckpointStorage):
    """State goes to files; small ones lie in the manifest.

    Args:
        checkpoint_path: Directory or file system URL.
        file_state_size_threshold: The largest file that is kept in the manifest, in bytes.
        write_buffer_size: Accepted for Flink's sake; files are written at once.
    """

    MAX_FILE_STATE_THRESHOLD = 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int | None = None,
    ) -> None:
        super().__init__(checkpoint_path)
        default = Options.FS_SMALL_FILE_THRESHOLD.default
        self._threshold = default if file_state_size_threshold is None else file_state_size_threshold
        if not 0 <= self._threshold <= self.MAX_FILE_STATE_THRESHOLD:
            raise ConfigurationError(
                f"file_state_size_threshold is {file_state_size_threshold} bytes; it must be between 0 and "
                f"{self.MAX_FILE_STATE_THRESHOLD}"
            )
        self._write_buffer_size = max(
            self._threshold, 4096 if write_buffer_size is None else write_buffer_size
        )

    def get_min_file_size_threshold(self) -> int:
        """The largest file that is kept in the manifest, in bytes."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """What the constructor was told; it makes no difference here."""
        return self._write_buffer_size

    def _configure(self, configuration: Configuration) -> None:
        configuration.set(Options.CHECKPOINT_STORAGE, "filesystem")
        configuration.set(Options.FS_SMALL_FILE_THRESHOLD, self._threshold)
