"""All benchmarks of columns, as one table of goals.

    python -m benchmarks.columns.run [--quick] [--only operators,jobs,engines]

Each part runs in a process of its own. `--quick` is a smoke test with a tenth of the records.
"""

from __future__ import annotations

from .. import parts

PARTS: dict[str, tuple[str, list[str]]] = {
    "operators": ("operators", []),
    "jobs": ("jobs", []),
    "engines": ("engines", []),
}
if __name__ == "__main__":
    parts.run(__doc__, "benchmarks.columns", PARTS)
