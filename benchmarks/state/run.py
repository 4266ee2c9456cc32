"""All benchmarks of keyed state, as one table of goals.

    python -m benchmarks.state.run [--quick] [--only read_modify_write,snapshots,…]

Each part runs in a process of its own. `--quick` is a smoke test with a tenth of the keys.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

PARTS = {
    "read_modify_write": ("read_modify_write", []),
    "snapshots": ("snapshots", []),
    "larger_than_memory": ("larger_than_memory", []),
    "larger_with_checkpoints": ("larger_than_memory", ["--checkpoints"]),
}
_MET = {True: "met", False: "MISSED", None: ""}


def main() -> None:
    """Run the parts and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=",".join(PARTS))
    arguments = parser.parse_args()
    print("| goal | measured | |\n|---|---|---|", flush=True)
    for name in arguments.only.split(","):
        module, options = PARTS[name]
        command = [sys.executable, "-m", f"benchmarks.state.{module}", *options]
        if arguments.quick:
            command.append("--quick")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                found = json.loads(line)
                print(f"| {found['goal']} | {found['measured']} | {_MET[found['met']]} |", flush=True)
        if process.returncode:
            sys.exit(f"{name} failed with exit status {process.returncode}")


if __name__ == "__main__":
    main()
