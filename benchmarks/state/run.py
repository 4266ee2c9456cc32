"""All benchmarks of keyed state, as one table of goals.

    python -m benchmarks.state.run [--quick] [--only read_modify_write,snapshots,…]

Each part runs in a process of its own. `--quick` is a smoke test with a tenth of the keys.
"""

from __future__ import annotations

from .. import parts

PARTS: dict[str, tuple[str, list[str]]] = {
    "read_modify_write": ("read_modify_write", []),
    "snapshots": ("snapshots", []),
    "larger_than_memory": ("larger_than_memory", []),
    "timers": ("timers", []),
    "larger_with_checkpoints": ("larger_than_memory", ["--checkpoints"]),
}
if __name__ == "__main__":
    parts.run(__doc__, "benchmarks.state", PARTS)
