"""Options of where a job runs and how it can be watched, with Flink's keys, class names and defaults.

The page of all settings is generated from these declarations and the texts under them.
"""

from __future__ import annotations

from ..config_options import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    MAP,
    MEMORY,
    STRING,
    ConfigOption,
    choice,
)
from ..time import Duration

__all__ = [
    "DeploymentOptions",
    "HistoryServerOptions",
    "JobManagerOptions",
    "LogOptions",
    "MetricOptions",
    "NetworkOptions",
    "RestOptions",
    "SparkOptions",
]


class DeploymentOptions:
    """Deployment.

    Where a job runs.
    """

    TARGET = ConfigOption("execution.target", choice("ray", "local"), "ray")
    """`ray`: actors on a Ray cluster, or an embedded one if there is none; `local`: the driver's process."""
    COORDINATOR_LINGER = ConfigOption("tidegate.coordinator.linger", DURATION, Duration.of_seconds(30))
    """How long the coordinator of a finished job stays to answer clients ([Ray jobs](ray-jobs.md))."""
    COORDINATOR_PLACEMENT = ConfigOption("tidegate.coordinator.placement", STRING, "head")
    """Node of the coordinator: `head`, `any`, or a label of Ray nodes as `name=value` ([Ray
    jobs](ray-jobs.md))."""
    SLOT_CPUS = ConfigOption("tidegate.slot.cpus", FLOAT, 1.0)
    """CPUs that the subtasks of one slot share; a job needs as many slots as its widest operator
    ([elasticity](elasticity.md))."""
    SLOT_SHARE_PROCESS = ConfigOption("tidegate.slot.share-process", BOOLEAN, False)
    """The subtasks of one slot run in one process instead of one process each
    ([slots](guide/streams.md#slots-and-resources))."""
    LOCAL_DIR = ConfigOption("tidegate.local-dir", STRING, None)
    """Directory for local state of the tasks; `tidegate` in the temporary directory (`/tmp/tidegate`) where
    it is not set."""
    CACHE_DIR = ConfigOption("tidegate.cache.dir", STRING, None)
    """Directory for [cached streams](guide/batch-mode.md), the same for all processes; `tidegate/caches` in
    the temporary directory where it is not set."""
    TRACE_FILE = ConfigOption("tidegate.trace.file", STRING, None)
    """Path of the file to which the coordinator writes [traces](telemetry.md) of checkpoints and restarts."""
    HEARTBEAT_TIMEOUT = ConfigOption("heartbeat.timeout", DURATION, Duration.of_seconds(15))
    """Silence after which a task's process counts as lost ([elasticity](elasticity.md#nodes-that-go))."""
    SLOT_REQUEST_TIMEOUT = ConfigOption("slot.request.timeout", DURATION, Duration.of_minutes(5))
    """How long a task's process may wait for room in the cluster."""
    REDUNDANT_PROCESSES = ConfigOption("slotmanager.redundant-taskmanager-num", INTEGER, 0, least=0)
    """Spare processes that are started in advance to replace one that dies; each takes the CPUs of the
    largest process in use."""
    CANCELLATION_TIMEOUT = ConfigOption("task.cancellation.timeout", DURATION, Duration.of_seconds(10))
    """How long a cancelled task may take to stop before its process is killed."""
    ATTACHED = ConfigOption("execution.attached", BOOLEAN, True)
    """`execute()` waits for the end of the job; with `false` the job runs on without its driver."""
    ON_STOP_SIGNAL = ConfigOption(
        "tidegate.on-stop-signal", choice("cancel", "stop-with-savepoint", "detach"), "cancel"
    )
    """What happens to the job when the driver that waits for it gets SIGINT or SIGTERM
    ([savepoints](savepoints.md))."""


class NetworkOptions:
    """Network.

    How the processes of a job reach each other.
    """

    GAP_TIMEOUT = ConfigOption(
        "tidegate.network.gap-timeout",
        DURATION,
        Duration.of_seconds(5),
        least=Duration.of_seconds(1),
        hint="messages that are only out of order would count as lost",
    )
    """How long a message between two processes may be missing, while later ones have arrived, before it
    counts as lost and the job restarts."""
    RECONNECT_TIMEOUT = ConfigOption(
        "tidegate.network.reconnect-timeout",
        DURATION,
        Duration.of_seconds(20),
        least=Duration.of_seconds(1),
        hint="a busy process would count as lost",
    )
    """How long the direct connection between two task processes may be lost before the job restarts. Until
    then it is opened again, and nothing is lost."""
    ADDRESS = ConfigOption("tidegate.network.address", STRING, "")
    """On which address a task process listens for those of other nodes: networks (`10.1.0.0/16`) or names of
    interfaces (`eth1`), separated by commas. The first that a node has applies; on Linux only. Where it is
    not set: the address by which Ray knows the node."""
    BIND_PORT = ConfigOption("taskmanager.data.bind-port", STRING, "0")
    """Ports on which task processes listen for those of other nodes: `50100-50200`, or several ranges with
    commas. Each task process on a node needs one, and each subtask of a Spark stage or sink one more. `0` is
    any free port."""


class JobManagerOptions:
    """The coordinator.

    What the coordinator leaves behind.
    """

    ARCHIVE_DIR = ConfigOption("jobmanager.archive.fs.dir", STRING, None)
    """Directory or URL in which a job that has ended leaves its archive for the [console](console.md)."""


class HistoryServerOptions:
    """Archives.

    Where the console finds jobs that have ended.
    """

    HISTORY_SERVER_ARCHIVE_DIRS = ConfigOption("historyserver.archive.fs.dir", STRING, None)
    """Where the console looks for archives, several separated by commas; `jobmanager.archive.fs.dir` where it
    is not set."""


class RestOptions:
    """The console of a local job.

    The [console](rest-api.md) that a local job serves while it runs.
    """

    PORT = ConfigOption("rest.port", INTEGER, None)
    """Port of the [console](rest-api.md) that a local job serves while it runs, `0` for any free port;
    without it there is none."""
    BIND_ADDRESS = ConfigOption("rest.bind-address", STRING, "127.0.0.1")
    """Address that this console listens on; other addresses require a token for every request."""


class LogOptions:
    """Logs.

    Where the processes of a job log, and what: see [logs](logs.md).
    """

    LEVEL = ConfigOption("env.log.level", choice("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), "INFO")
    """The least level that is written to the files."""
    DIRECTORY = ConfigOption("env.log.dir", STRING, None)
    """Directory of the [log files](logs.md) on every machine. Where it is not set: on Ray its own directory
    of logs (`/tmp/ray/session_latest/logs`, where `ray logs` and the dashboard find them), in the local shell
    no file."""
    MAX_FILES = ConfigOption("env.log.max", INTEGER, 3, least=0)
    """Older files of 10 MiB that each process keeps."""
    FORMAT = ConfigOption("tidegate.log.format", choice("TEXT", "JSON"), "TEXT")
    """`TEXT` for people, `JSON` for programs: one object a line."""


class MetricOptions:
    """Metrics.

    What is measured, and where it is available: see [metrics](metrics.md).
    """

    UPDATE_INTERVAL = ConfigOption("metrics.fetcher.update-interval", DURATION, Duration.of_seconds(1))
    """How often the coordinator asks the tasks for their [metrics](metrics.md). With `0` it never asks, and
    only the metrics of the job as a whole are available. On Ray, a process whose metrics do not change is
    asked every 3 s."""
    PROMETHEUS_PORT = ConfigOption("metrics.reporter.prom.port", STRING, None)
    """Port of the page for Prometheus: a port, a range of which the first free port is taken, or several of
    both with commas; `0` takes any free port. Without it there is no page."""
    PROMETHEUS_HOST = ConfigOption("metrics.reporter.prom.host", STRING, "127.0.0.1")
    """Address on which this page listens. With `0.0.0.0`, every machine that reaches the port can read the
    metrics: there is no password."""


class SparkOptions:
    """Spark.

    The Spark session of a job with Spark stages: see [Spark](spark.md).
    """

    EXECUTORS = ConfigOption("tidegate.spark.executors", INTEGER, 1)
    """Executors, each a Java actor of Ray."""
    EXECUTOR_CORES = ConfigOption("tidegate.spark.executor-cores", INTEGER, 1)
    """Tasks that an executor runs at a time. Ray reserves no CPU for them ([Spark](spark.md#resources))."""
    EXECUTOR_MEMORY = ConfigOption("tidegate.spark.executor-memory", STRING, "1g")
    """Heap of an executor, which Ray reserves."""
    LOG_DIR = ConfigOption("tidegate.spark.log-dir", STRING, None)
    """Directory for the logs of Spark and of the driver's Java, and for `spark.sql.warehouse.dir`; a
    temporary one where it is not set."""
    CONF = ConfigOption("tidegate.spark.conf", MAP, None)
    """Further Spark settings, as `key:value,key:value`."""
    START_TIMEOUT = ConfigOption("tidegate.spark.start-timeout", DURATION, Duration.of_minutes(3))
    """How long the session may take to start. After it, the attempt fails with what Ray knows about the
    missing executors."""
    BUFFER_SIZE = ConfigOption("tidegate.spark.buffer-size", MEMORY, 256 << 20)
    """Records of a stage whose results have not been emitted. With more, the stage takes no records."""
    BUFFER_MEMORY = ConfigOption("tidegate.spark.buffer-memory", MEMORY, 64 << 20)
    """The part of these records that is in memory, and as much of the results. The rest is on local disk."""
