"""All benchmarks with Spark, as one table of goals.

    python -m benchmarks.spark.run [--quick] [--only start,join]

Each part runs in a process of its own. `start`, `join` and `demo` start a session on an embedded Ray, the
others a local one of two cores.
"""

from __future__ import annotations

from .. import parts

PARTS: dict[str, tuple[str, list[str]]] = {
    "state_processor": ("state_processor", []),
    "stage": ("stage", []),
    "start": ("start", []),
    "throughput": ("throughput", []),
    "join": ("join", []),
    "demo": ("demo", []),
    "alternatives": ("alternatives", []),
}
if __name__ == "__main__":
    parts.run(__doc__, "benchmarks.spark", PARTS)
