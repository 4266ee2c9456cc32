"""What a check found."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Severity(enum.Enum):
    """How bad a finding is; the worst last."""

    OK = "ok"
    NOTE = "note"
    """Something that some jobs need is not there."""
    WARNING = "warning"
    """Jobs run, but slowly, unsafely, or not under load."""
    ERROR = "error"
    """Jobs do not run."""

    @property
    def rank(self) -> int:
        """Higher for worse."""
        return list(Severity).index(self)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    check: str
    severity: Severity
    text: str
    remedy: str = ""
    """What to do; empty where nothing is to be done."""


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, Severity.OK, text)


def worst(findings: list[Finding]) -> Severity:
    """The worst severity; `OK` of no findings."""
    return max((each.severity for each in findings), key=lambda each: each.rank, default=Severity.OK)
