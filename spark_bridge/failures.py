"""What went wrong in Spark, without the stack traces that Py4J and Spark wrap around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..common import errors
from ..common.errors import TidegateError
from .launch import connection_errors

_SHOWN_LINES = 3
_OWN = re.compile(r"tidegate\.common\.errors\.(\w+): (.*)")


def cause_of(error: Exception) -> str:
    """The root cause of an error of Spark, in a line or two."""
    java = getattr(error, "java_exception", None)
    # The Java process that would have to tell more may be the one that died.
    with suppress(*connection_errors()):
        while java is not None and java.getCause() is not None:
            java = java.getCause()
        if java is not None:
            return _without_stack(str(java.toString()))
    return f"{type(error).__name__}: {_without_stack(str(error))}"


@contextmanager
def errors_of_tasks() -> Iterator[None]:
    """Raise Tidegate's own errors of Spark's Python workers as what they are."""
    try:
        yield
    except TidegateError:
        raise
    except Exception as error:
        found = _OWN.search(cause_of(error)) or _OWN.search(str(error))
        kind = None if found is None else getattr(errors, found[1], None)
        if found is None or kind is None:
            raise
        raise kind(found[2]) from error


def _without_stack(text: str) -> str:
    """The lines before a Java stack trace; of a long text (a Python traceback) the first and last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ends = (number for number, line in enumerate(lines) if line.startswith(("at ", "JVM stacktrace")))
    lines = lines[: next(ends, len(lines))]
    shown = lines if len(lines) <= _SHOWN_LINES else [lines[0], "…", lines[-1]]
    return " / ".join(shown)
