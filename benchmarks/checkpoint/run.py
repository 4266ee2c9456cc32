"""All benchmarks of checkpoints and recovery, as one table of goals.

    python -m benchmarks.checkpoint.run [--quick] [--only durations,overhead,…]

Each part runs in a process of its own, with a Ray of its own. `--quick` is a smoke test.
"""

from __future__ import annotations

from .. import parts

PARTS: dict[str, tuple[str, list[str]]] = {
    "durations": ("durations", []),
    "overhead": ("overhead", []),
    "alignment": ("alignment", []),
    "task": ("recovery", ["--kill", "task"]),
    "task_locally": ("recovery", ["--kill", "task", "--local"]),
    "task_redundant": ("recovery", ["--kill", "task", "--local", "--spares", "1"]),
    "coordinator": ("recovery", ["--kill", "coordinator"]),
}

if __name__ == "__main__":
    parts.run(__doc__, "benchmarks.checkpoint", PARTS)
