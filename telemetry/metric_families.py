"""Metrics of a job as families of samples, before anybody turns them into a format.

Source of names and labels: Flink's `PrometheusReporter`, which joins the logical scope of a metric with
underscores and makes labels of the scope's variables. Here every family is a gauge, as most are there: a
counter of a user may count down, and every count begins at 0 again with a new attempt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..protocol.task_metrics import UserMetric

_NO_NAME_CHARACTER = re.compile(r"[^a-zA-Z0-9_]")
_PREFIX = "tidegate"

Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """Samples of one name.

    Attributes:
        path: The scope and the metric's own name, such as `("jobmanager", "job", "numRestarts")`.
        help: One line about what it says.
        samples: Labels and value.
    """

    path: tuple[str, ...]
    help: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    @property
    def prometheus_name(self) -> str:
        """As Prometheus allows it: `tidegate_jobmanager_job_numRestarts`."""
        return as_name("_".join((_PREFIX, *self.path)))

    @property
    def dotted_name(self) -> str:
        """As OpenTelemetry has it: `tidegate.jobmanager.job.numRestarts`."""
        return ".".join((_PREFIX, *map(as_name, self.path)))


def as_name(text: str) -> str:
    """The text with an underscore for every character that a name or the name of a label may not have."""
    return _NO_NAME_CHARACTER.sub("_", text)


class MetricFamilies:
    """Gathers families; of two samples of users with one name and the same labels the first one stays."""

    def __init__(self) -> None:
        # By the name that Prometheus gives them: two paths may have one.
        self._families: dict[str, MetricFamily] = {}
        self._of_users: set[tuple[str, frozenset[tuple[str, str]]]] = set()
        self.doubled: list[str] = []
        """Names of the samples that were left out for that reason."""

    def add(self, path: tuple[str, ...], help: str, labels: Labels, value: float) -> None:
        """Add a sample."""
        name = "_".join(path)
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = MetricFamily(path, help)
        family.samples.append((labels, value))

    def add_of_user(
        self, path: tuple[str, ...], labels: Labels, chosen: Mapping[str, str], value: UserMetric
    ) -> None:
        """Add a metric of a user's function.

        Args:
            path: What the name begins with, its groups, and its own name.
            labels: Those of its place in the job.
            chosen: Those of its groups; one that has the name of another is called `exported_…`.
            value: A mapping gives a sample for each entry; a rate is the metric itself, as in Flink.
        """
        *groups, own_name = map(as_name, path)
        together = {**labels, **_without(labels, chosen)}
        values = value if isinstance(value, Mapping) else {"rate": value}
        for kind, number in values.items():
            name = (*groups, own_name if kind == "rate" else f"{own_name}_{kind}")
            identity = ("_".join(name), frozenset(together.items()))
            if identity in self._of_users:
                self.doubled.append(identity[0])
            else:
                self._of_users.add(identity)
                self.add(name, "A metric of a user's function.", together, number)

    def all(self) -> list[MetricFamily]:
        """The families so far."""
        return list(self._families.values())


def _without(taken: Labels, chosen: Mapping[str, str]) -> Labels:
    """The labels that a user chose, by names that are allowed and not taken."""
    found: Labels = {}
    for key, value in chosen.items():
        name = as_name(key)
        if name[:1] in ("", "_") or name[:1].isdigit():
            # A digit cannot be the first character, and names with two underscores are Prometheus's own.
            name = f"key_{name.lstrip('_')}"
        found[f"exported_{name}" if name in taken else name] = value
    return found
