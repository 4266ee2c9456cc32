"""Python, the packages that Tidegate asks for, and Java."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from ...common.errors import ConfigurationError
from ...spark_bridge.java import require_java
from .finding import Finding, Severity, ok

_TESTED = ((3, 10), (3, 12))
_NOT_FOR_USERS = {"bench", "demo", "dev"}


def check_python() -> Iterator[Finding]:
    """Whether this Python is one that Tidegate runs on."""
    here, (oldest, newest) = sys.version_info[:2], _TESTED
    if oldest <= here <= newest:
        yield ok("python", platform.python_version())
        return
    wanted = f"{oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"
    severity = Severity.ERROR if here < oldest else Severity.WARNING
    yield Finding(
        "python",
        severity,
        f"{platform.python_version()}; Tidegate is tested with {wanted}",
        f"make an environment with Python {wanted}",
    )


def check_packages() -> Iterator[Finding]:
    """Whether the packages are there in versions that fit, those of extras as far as they are installed."""
    try:
        needed = [Requirement(line) for line in requires("tidegate") or ()]
    except PackageNotFoundError:
        yield Finding(
            "packages",
            Severity.WARNING,
            "tidegate is not installed as a package, so nobody knows what it needs",
            "pip install the wheel, or `make dev` in a clone",
        )
        return
    always = [each for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    for requirement in always:
        yield _package(requirement)
    yield from _extras([each for each in needed if each not in always])


def _package(requirement: Requirement) -> Finding:
    check = f"package {requirement.name}"
    remedy = f"pip install '{requirement.name}{requirement.specifier}'"
    there = _installed(requirement)
    if there is None:
        return Finding(check, Severity.ERROR, "is missing", remedy)
    if not requirement.specifier.contains(there, prereleases=True):
        return Finding(check, Severity.ERROR, f"{there} does not fit {requirement.specifier}", remedy)
    return ok(check, there)


def _extras(requirements: list[Requirement]) -> Iterator[Finding]:
    extras: dict[str, list[Requirement]] = {}
    for each in requirements:
        for extra in str(each.marker).split("extra == ")[1:]:
            extras.setdefault(extra.strip("\"' )").split('"')[0], []).append(each)
    for extra, wanted in sorted(extras.items()):
        if extra in _NOT_FOR_USERS:
            continue
        check, remedy = f"extra {extra}", f"pip install 'tidegate[{extra}]'"
        there = {each: _installed(each) for each in wanted}
        missing = [each.name for each, found in there.items() if found is None]
        wrong = [
            f"{each.name} {found} does not fit {each.specifier}"
            for each, found in there.items()
            if found is not None and not each.specifier.contains(found, prereleases=True)
        ]
        if wrong:
            yield Finding(check, Severity.WARNING, "; ".join(wrong), remedy)
        elif missing:
            yield Finding(check, Severity.NOTE, f"is not installed: {', '.join(missing)}", remedy)
        else:
            yield ok(check, ", ".join(f"{each.name} {found}" for each, found in there.items()))


def _installed(requirement: Requirement) -> str | None:
    try:
        return version(requirement.name)
    except PackageNotFoundError:
        return None


def check_java() -> Iterator[Finding]:
    """Whether there is a Java that Spark stages can use."""
    try:
        found = require_java()
    except ConfigurationError as error:
        reason, _, remedy = str(error).partition(". ")
        yield Finding("java", Severity.WARNING, reason, remedy)
    else:
        yield ok("java", f"{found.version} in {found.home}, for Spark stages")
