"""What a client can ask of a job, one type for each request.

Every job answers them in `ask(request)`: the client's handle, the actor, its host, a job in this process,
a job that has ended, and a simulated one. To add an action, write its type here, perform it in `JobControl`,
answer it for ended jobs in `TerminatedJob`, and offer it in `JobClient`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...protocol.elements import SavepointFormatType, SnapshotKind
from ..barrier_mode import BarrierMode

if TYPE_CHECKING:
    # A driver imports these when its job runs: it would start later if they were imported before.
    # Ruff does not see names in the arguments of a base class.
    from ...protocol.checkpoints.checkpoint_events import RequestId  # noqa: F401
    from ..monitoring.job_details import JobDetails  # noqa: F401
    from ..monitoring.job_report import JobReport  # noqa: F401

R = TypeVar("R")


class ControlRequest(Generic[R]):
    """A request that is answered with an `R`.

    All of them may be asked twice: a client repeats a request whose answer was lost.
    """


@dataclass(frozen=True)
class GetReport(ControlRequest["JobReport"]):
    """Get the status of the job, its last failure and its statistics."""


@dataclass(frozen=True)
class GetDetails(ControlRequest["JobDetails"]):
    """Get the report with plan, subtasks and failures: more than should be polled often."""


@dataclass(frozen=True)
class GetProcesses(ControlRequest[dict[str, int]]):
    """Get the process ids of the live task processes, by the names of their subtasks."""


@dataclass(frozen=True)
class Cancel(ControlRequest[None]):
    """Stop the job without a checkpoint."""


@dataclass(frozen=True)
class TakeCheckpoint(ControlRequest["RequestId | None"]):
    """Take a checkpoint now. The answer is `None` if checkpointing is off."""


@dataclass(frozen=True)
class TakeSavepoint(ControlRequest["RequestId | None"]):
    """Take a savepoint, and perhaps stop the job with it. The answer is `None` if there is no storage for it.

    Attributes:
        kind: `SAVEPOINT`, or `STOP` where the job stands, or `FINAL` after its sources have ended.
        directory: Where the savepoint makes a directory of its own; `None` for the job's default.
        format_type: How keyed state is stored.
    """

    kind: SnapshotKind
    directory: str | None
    format_type: SavepointFormatType


@dataclass(frozen=True)
class SetBarrierMode(ControlRequest[str]):
    """Change how barriers are handled. The answer is why that is not possible, or an empty text."""

    mode: BarrierMode


@dataclass(frozen=True)
class Rescale(ControlRequest[str]):
    """Change the parallelism of operators, by uid or name. The answer is why not, or an empty text."""

    parallelism: Mapping[str, int]


@dataclass(frozen=True)
class StateAnswer:
    """The answer to a `StateQuery`.

    Attributes:
        value: The pickled value; empty with an `error`.
        error: Why there is no value.
        is_final: Whether asking again would give the same error.
    """

    value: bytes
    error: str | None = None
    is_final: bool = True


@dataclass(frozen=True)
class StateQuery(ControlRequest[StateAnswer]):
    """Get the live value of one key of one keyed state from the task that owns the key.

    Attributes:
        timeout_s: How long to wait for the task.
    """

    operator_uid: str
    state_name: str
    key: Any
    namespace: Any = None
    timeout_s: float = 30.0
