"""All benchmarks of files and PostgreSQL, as one table of goals.

    python -m benchmarks.connectors.run [--quick] [--only files,postgres]

Each part runs in a process of its own, in the local shell with a checkpoint each second, and measures the job
and the bare library in turns. `--quick` is a smoke test with a tenth of the records. The PostgreSQL server
comes with the tests' dependencies.
"""

from __future__ import annotations

from .. import parts

PARTS: dict[str, tuple[str, list[str]]] = {"files": ("files", []), "postgres": ("postgres", [])}

if __name__ == "__main__":
    parts.run(__doc__, "benchmarks.connectors", PARTS)
