"""All benchmarks with Spark, as one table of goals.

    python -m benchmarks.spark.run [--quick] [--only state_processor,stage]

Each part runs in a process of its own, with a local Spark session of two cores.
"""

from __future__ import annotations

from .. import parts

PARTS: dict[str, tuple[str, list[str]]] = {
    "state_processor": ("state_processor", []),
    "stage": ("stage", []),
}
if __name__ == "__main__":
    parts.run(__doc__, "benchmarks.spark", PARTS)
