"""The documents of the REST API about savepoints, checkpoints, rescaling and other actions, after Flink's."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from .model_forms import Camel, Dashed, Plain


class SavepointRequest(BaseModel):
    """Asks for a savepoint."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    target_directory: str | None = Field(default=None, alias="target-directory", max_length=2_000)
    """By default `execution.checkpointing.savepoint-dir` of the job."""
    cancel_job: bool = Field(default=False, alias="cancel-job")
    """Stop the job with it."""
    format_type: Literal["CANONICAL", "NATIVE"] = Field(default="CANONICAL", alias="formatType")
    trigger_id: str | None = Field(default=None, alias="triggerId", pattern="^[0-9a-f]{32}$")
    """Asking twice with the same one takes one savepoint."""


class StopRequest(BaseModel):
    """Asks for the end of the job with a savepoint."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    target_directory: str | None = Field(default=None, alias="targetDirectory", max_length=2_000)
    drain: bool = False
    format_type: Literal["CANONICAL", "NATIVE"] = Field(default="CANONICAL", alias="formatType")
    trigger_id: str | None = Field(default=None, alias="triggerId", pattern="^[0-9a-f]{32}$")


class CheckpointRequest(BaseModel):
    """Asks for a checkpoint now."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    checkpoint_type: Literal["CONFIGURED", "FULL", "INCREMENTAL"] = Field(
        default="CONFIGURED", alias="checkpointType"
    )
    """Accepted for Flink's clients: every checkpoint is an increment."""
    trigger_id: str | None = Field(default=None, alias="triggerId", pattern="^[0-9a-f]{32}$")


class ParallelismBounds(Camel):
    """What the parallelism of a vertex may be."""

    lower_bound: int = Field(default=1, ge=1, le=32_768)
    upper_bound: int = Field(ge=1, le=32_768)
    """The parallelism that it gets."""


class VertexResources(Plain):
    """What a vertex may take."""

    parallelism: ParallelismBounds


class Triggered(Dashed):
    """An operation was started; ask for it under this id."""

    request_id: str


class OperationStatus(Plain):
    """Where an operation is."""

    id: Literal["IN_PROGRESS", "COMPLETED"]


class FailureCause(BaseModel):
    """Why an operation failed."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    class_name: str = Field(serialization_alias="class")
    stack_trace: str = Field(serialization_alias="stack-trace")
    """The message only."""


class OperationResult(BaseModel):
    """What came of an operation: one of these."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    location: str | None = None
    """The path of a savepoint."""
    checkpoint_id: int | None = Field(default=None, serialization_alias="checkpointId")
    failure_cause: FailureCause | None = Field(default=None, serialization_alias="failure-cause")


class Operation(Plain):
    """A savepoint, a stop, a checkpoint or a change of parallelism that was asked for."""

    status: OperationStatus
    operation: OperationResult | None = None
    """`None` while it is in progress."""
