"""Which keys mean something, so that a misspelt one is an error and not silently without effect."""

from __future__ import annotations

import difflib
import logging

from ..config_options import ConfigOption
from ..configuration import Configuration
from ..errors import ConfigurationError
from .older_keys import FIXED_BEFORE, REPLACED
from .options import GROUPS

__all__ = ["check_settings", "known_options"]

logger = logging.getLogger("tidegate")

_FIXED = {
    "execution.checkpointing.incremental": ("true", "every checkpoint is an increment"),
    "execution.checkpointing.create-subdir": ("true", "every job has a directory of its own"),
    "execution.checkpointing.checkpoints-after-tasks-finish": (
        "true",
        "checkpoints always go on when some tasks have finished",
    ),
    "execution.checkpointing.file-merging.enabled": (
        "false",
        "small files go into the manifest instead (execution.checkpointing.data-inline-threshold)",
    ),
    "state.backend.async": ("true", "tasks always store snapshots while they process records"),
    "state.changelog.enabled": ("false", "an increment only holds what has changed"),
}
_FIXED |= {older: _FIXED[key] for older, key in FIXED_BEFORE.items()}
"""Settings of Flink that have one value here. It is accepted, so that a configuration can be shared."""

_ABSENT = {
    "execution.checkpointing.file-merging.": "small files go into the manifest instead",
    "execution.checkpointing.": "Tidegate has nothing that it would change",
    "execution.state-recovery.approximate": "a restored task always has all of its state",
    "execution.state-recovery.without-channel-state.": (
        "execution.state-recovery.ignore-unclaimed-state drops records under way that have no place"
    ),
    "dstl.": "there is no changelog, since an increment only holds what has changed",
    "high-availability": "a lost coordinator restarts from checkpoint storage without further settings",
    "recovery.": "a lost coordinator restarts from checkpoint storage without further settings",
    "state.changelog.": "there is no changelog, since an increment only holds what has changed",
    "state.backend.rocksdb.": "keyed state is in LMDB (tidegate.state.lmdb.memory)",
    "state.backend.": "choose with state.backend.type",
    "metrics.reporter": "metrics.reporter.prom.port gives a page for Prometheus, OTEL_EXPORTER_OTLP_ENDPOINT "
    "sends them to an OpenTelemetry collector",
    "metrics.": "Tidegate has nothing that it would change",
    "jobmanager.": "Ray runs the coordinator",
    "taskmanager.": "Ray runs the tasks (tidegate.slot.cpus)",
}
"""Why Tidegate has no such setting, by the start of Flink's key; errors quote the first that fits."""

_WITHOUT_EFFECT = {
    "akka.": "Ray carries the calls between processes",
    "execution.checkpointing.snapshot-compression": "the format of snapshots says what is compressed",
    "metrics.latency.": "there are no latency markers",
    "metrics.reporter.prom.factory.class": "Tidegate has one reporter for Prometheus",
    "metrics.reporters": "there is a page for Prometheus as soon as metrics.reporter.prom.port is set",
    "pekko.": "Ray carries the calls between processes",
    "pipeline.closure-cleaner-level": "functions are sent with cloudpickle, which needs no cleaning",
    "pipeline.object-reuse": "an operator always hands its records to the next one of its task as they are",
    "python.execution-mode": "functions always run in the task's own Python process",
    "python.fn-execution.": "there is no second process to talk to; see tidegate.batch.size",
    "python.logging.": "functions log with Python's logging, in the task's process",
    "python.metric.enabled": "metrics are always on",
    "python.operator-chaining.enabled": "see pipeline.operator-chaining",
    "python.profile.enabled": "use a profiler of Python's on the task's process",
    "task.cancellation-interval": "a task is asked once to stop, see task.cancellation.timeout",
    "task.cancellation.interval": "a task is asked once to stop, see task.cancellation.timeout",
}
"""Settings that tune the JVM, or how PyFlink talks to its Python workers. No result depends on them, so a
program that sets them runs, with a warning."""


def known_options() -> dict[str, ConfigOption[object]]:
    """Every option that Tidegate reads, by its key."""
    found = [value for group in GROUPS for value in vars(group).values() if isinstance(value, ConfigOption)]
    return {option.key: option for option in found}


def check_settings(configuration: Configuration) -> None:
    """Check that every key is known and that every value can be read.

    Raises:
        ConfigurationError: Naming every key that is not known, with the nearest one that is, or the first
            value that cannot be read, with what it may be.
    """
    known = known_options()
    read_as = {key: option for option in known.values() for key in (option.key, *option.deprecated_keys)}
    problems = []
    values = configuration.to_dict()
    for key in sorted(values):
        if key in _FIXED:
            problems += _fixed_problem(key, values[key])
        elif key in read_as:
            configuration.get(read_as[key])
        elif (why := _without_effect(key)) is not None:
            logger.warning("The setting %s has no effect: %s", key, why)
        else:
            problems.append(_unknown(key, [*known, *_FIXED]))
    if problems:
        raise ConfigurationError("; ".join(problems))


def _without_effect(key: str) -> str | None:
    return next((why for start, why in _WITHOUT_EFFECT.items() if key.startswith(start)), None)


def _fixed_problem(key: str, value: str) -> list[str]:
    only, why = _FIXED[key]
    if value.strip().lower() == only:
        return []
    return [f"{key} is set to {value!r}, but it can only be {only}: {why}"]


def _unknown(key: str, known: list[str]) -> str:
    if key in REPLACED:
        return f"{key} is not a setting of Tidegate: {REPLACED[key]}"
    nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.8)
    if nearest:
        return f"{key} is not a setting; did you mean {nearest[0]}?"
    for start, why in _ABSENT.items():
        if key.startswith(start):
            return f"{key} is not a setting of Tidegate: {why}"
    nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
    return f"{key} is not a setting; the nearest one is {nearest[0]}. Remove it, or correct its name"
