"""Every error that Tidegate raises on purpose derives from `TidegateError`.

A message names the operator and the subtask where there is one, the cause, and what to do about it.
"""

from __future__ import annotations


class TidegateError(Exception):
    """Base of all errors raised by Tidegate."""


class ConfigurationError(TidegateError, ValueError):
    """A setting is missing, malformed or contradicts another one."""


class GraphError(ConfigurationError):
    """The stream graph cannot be run as written: a cycle, a duplicate uid, a missing sink."""


class SerializationError(TidegateError, TypeError):
    """A function or a value cannot be shipped to another process."""


class OutputTypeError(TidegateError, TypeError):
    """An operator emitted a value that does not have the declared output type."""


class AbsentNameError(TidegateError, ImportError):
    """A program imports a name of PyFlink that Tidegate does not have; the message names the alternative."""


class KeyTypeError(TidegateError, TypeError):
    """A key has no deterministic encoding, or does not match the declared key type."""


class StateError(TidegateError):
    """State was declared or used in a way that cannot work."""


class StateMigrationError(StateError):
    """Restored state does not match what the job now declares."""


class CheckpointStorageError(TidegateError):
    """Checkpoint storage could not be read or written."""


class CheckpointNotFoundError(CheckpointStorageError):
    """There is no checkpoint or savepoint at the given place."""


class CorruptCheckpointError(CheckpointStorageError):
    """A stored checkpoint is damaged: a checksum, a length or the format does not hold."""


class CorruptArchiveError(CheckpointStorageError):
    """What an ended job left of itself is damaged."""


class LostMessageError(TidegateError):
    """A message between two processes of a job did not arrive, although later ones did."""


class UserCodeError(TidegateError):
    """A user function raised. The cause is chained; the message names operator and subtask.

    Attributes:
        record: The record on which it raised, if there is one. It stays in the process: a pickle has none.
    """

    record: object = None

    def __reduce__(self) -> tuple[type[UserCodeError], tuple[object, ...]]:
        return type(self), self.args


class ResourceError(TidegateError):
    """The cluster cannot place what the job asks for."""


class ClusterUnreachableError(ResourceError):
    """There is no way to the Ray cluster: nobody listens, or the token is wrong."""


class JobNotFoundError(TidegateError, LookupError):
    """No job has this id or name, or more than one has."""


class JobExecutionError(TidegateError):
    """A job ended in failure. Raised to the driver that waited for it."""


class SupersededError(TidegateError):
    """A coordinator was asked that does not own its job any more: ask again, another one answers."""


class JobCancelledError(JobExecutionError):
    """The job was cancelled before it finished."""


class JobTimeoutError(JobExecutionError, TimeoutError):
    """A job did not do in time what it was asked for; it may still do it."""


def first_line(error: BaseException | None) -> str:
    """What an error says in short."""
    text = str(error).strip() if error is not None else "it ended"
    return text.splitlines()[0] if text else type(error).__name__
