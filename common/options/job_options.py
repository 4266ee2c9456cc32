"""Options of the job graph and of how its records travel, with Flink's keys, class names and defaults.

The page of all settings is generated from these declarations and the texts under them.
"""

from __future__ import annotations

from ..config_options import (
    BOOLEAN,
    DURATION,
    INTEGER,
    MAP,
    MEMORY,
    STRING,
    ConfigOption,
    choice,
)
from ..time import Duration

__all__ = [
    "CoreOptions",
    "DataPlaneOptions",
    "ExecutionOptions",
    "PipelineOptions",
]


class CoreOptions:
    """Parallelism.

    The parallelism of the whole job.
    """

    DEFAULT_PARALLELISM = ConfigOption("parallelism.default", INTEGER, 1, least=1)
    """Parallelism of operators that set none."""


class PipelineOptions:
    """The job graph.

    Its name, its operators and their parameters.
    """

    NAME = ConfigOption("pipeline.name", STRING, None)
    """Name of the job where `execute()` is called without one."""
    MAX_PARALLELISM = ConfigOption("pipeline.max-parallelism", INTEGER, -1)
    """Number of key groups, the upper limit of the parallelism; with `-1` it is 1.5 times the parallelism,
    rounded up to a power of two, and at least 128."""
    AUTO_WATERMARK_INTERVAL = ConfigOption(
        "pipeline.auto-watermark-interval", DURATION, Duration.of_millis(200)
    )
    """Time between two [watermarks](guide/watermarks.md); `0 ms` for none."""
    OPERATOR_CHAINING = ConfigOption(
        "pipeline.operator-chaining.enabled", BOOLEAN, True, deprecated_keys=("pipeline.operator-chaining",)
    )
    """Operators may share a task."""
    AUTO_GENERATE_UIDS = ConfigOption("pipeline.auto-generate-uids", BOOLEAN, True)
    """With `false`, every operator must have a uid set with `.uid(…)`, and a job without one is rejected."""
    GLOBAL_JOB_PARAMETERS = ConfigOption("pipeline.global-job-parameters", MAP, None)
    """Parameters that functions read with `RuntimeContext.get_job_parameter`, as
    `key1:value1,key2:value2`."""


class ExecutionOptions:
    """Execution.

    How a job runs.
    """

    RUNTIME_MODE = ConfigOption(
        "execution.runtime-mode", choice("STREAMING", "BATCH", "AUTOMATIC"), "STREAMING"
    )
    """[Batch mode](guide/batch-mode.md) requires that every source ends. `AUTOMATIC` uses it where they all
    do."""
    BUFFER_TIMEOUT = ConfigOption(
        "execution.buffer-timeout.interval",
        DURATION,
        Duration.of_millis(100),
        deprecated_keys=("execution.buffer-timeout",),
    )
    """How long a record may wait for its batch to become full ([tune](tune.md))."""
    BUFFER_TIMEOUT_ENABLED = ConfigOption("execution.buffer-timeout.enabled", BOOLEAN, True)
    """With `false`, a batch is sent only when it is full: `execution.buffer-timeout.interval` has no
    effect."""


class DataPlaneOptions:
    """Batches and flow control.

    How records travel: see [tune](tune.md).
    """

    BATCH_SIZE = ConfigOption("tidegate.batch.size", INTEGER, 4_096, least=1)
    """Records in a full batch ([tune](tune.md))."""
    CHANNEL_CREDIT = ConfigOption("tidegate.channel.credit", MEMORY, 1 << 20, least=1)
    """Bytes in flight on one channel before its sender waits."""
