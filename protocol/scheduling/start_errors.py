"""Whether an error of the program that ends an attempt before its first record is final.

Such an error, a misspelt attribute in `open` for example, does not depend on records or positions. When it
ends a second attempt in the same way, further restarts cannot help and only delay the report. Which errors
are errors of the program, and not of the world around it, is decided where they are raised (docs/adr/072).
"""

from __future__ import annotations

import re

from .failover import GiveUp

# What differs between two processes: addresses of objects, process ids, ports, generated ids.
_VARYING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{32}\b|\d+", re.IGNORECASE)


class StartErrors:
    """Remembers what ended the attempts since the job last ran."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()

    def failed(self, task_id: str, cause: str) -> GiveUp | None:
        """Decide on an error of the program that ended an attempt before its first record.

        Args:
            task_id: The task that raised it; which of its subtasks does not matter.
            cause: Operator, type and message.

        Returns:
            Why the job must not be restarted; `None` if the restart strategy decides.
        """
        error = (task_id, _VARYING.sub("#", cause))
        if error in self._seen:
            return GiveUp(
                "an earlier attempt ended in the same way before its first record, so a restart cannot help"
            )
        self._seen.add(error)
        return None

    def running(self) -> None:
        """Every function is open: nothing that was seen so far keeps the program from starting."""
        self._seen.clear()
