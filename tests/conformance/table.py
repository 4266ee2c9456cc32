"""The page docs/conformance.md."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

_INTRODUCTION = """\
# Conformance with PyFlink

PyFlink's own tests of the DataStream API, run against Tidegate on the local shell. The script
`tests/conformance/run.py` wrote this page from the tests in Apache Flink's repository, version {version}:

    python tests/conformance/run.py path/to/a/checkout/of/flink

The packages of PyFlink on PyPI hold no tests, so the script reads a checkout. Nothing of Flink is copied
into this repository. The script changes the tests' imports (`pyflink` to `tidegate`) and gives them Python
classes for the test utilities that PyFlink wrote in Java; `tests/conformance/rewriting.py` has the rules.
Each test has a time limit.

A test *cannot run* when it asks the JVM for its answer. This is decided by rule, from the names a test uses:
the Java gateway, a Java object behind a Python object (`_j_…`), a Java class, a jar, the Table API; or when
PyFlink skips the test itself. All others count. The tests of connectors and formats are left out: in PyFlink
these are names for classes in Java jars.
"""


@dataclass(frozen=True)
class Outcome:
    """What became of one test: `passed`, `failed` or `cannot run`."""

    test: str
    status: str
    why: str
    duration_s: float = 0.0


def table_page(version: str, modules: list[tuple[str, list[Outcome]]]) -> str:
    """The page, as Markdown."""
    parts = [_INTRODUCTION.format(version=version), _summary(modules)]
    parts.append("## Failed\n")
    for name, outcomes in modules:
        failed = [outcome for outcome in outcomes if outcome.status == "failed"]
        if failed:
            parts.append(f"### {name}\n")
            parts += [f"* `{outcome.test}`: {_plain(outcome.why)}" for outcome in failed]
            parts.append("")
    parts.append("## Cannot run\n")
    reasons = Counter(o.why for _, outcomes in modules for o in outcomes if o.status == "cannot run")
    parts += ["| reason | tests |", "|---|---|"]
    parts += [f"| {_plain(reason)} | {count} |" for reason, count in sorted(reasons.items())]
    return "\n".join(parts) + "\n"


def _summary(modules: list[tuple[str, list[Outcome]]]) -> str:
    rows = ["| test module | passed | failed | cannot run |", "|---|---:|---:|---:|"]
    total: Counter[str] = Counter()
    for name, outcomes in modules:
        counts = Counter(outcome.status for outcome in outcomes)
        total += counts
        rows.append(_row(name, counts))
    rows.append(_row("**all**", total))
    return "\n".join(rows) + "\n"


def _row(name: str, counts: Counter[str]) -> str:
    return f"| {name} | {counts['passed']} | {counts['failed']} | {counts['cannot run']} |"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
