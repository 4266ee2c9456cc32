"""What the trace of a checkpoint costs: CPU time of checkpoints of an idle job, traced and not, by turns.

python -m benchmarks.telemetry.traces [--checkpoints 100] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path

from tidegate.common import Configuration
from tidegate.datastream import SourceContext, SourceFunction, StreamExecutionEnvironment

OPERATORS = 4
PARALLELISM = 2
SUBTASKS = PARALLELISM * (OPERATORS + 1)


class Nothing(SourceFunction):
    """Emits nothing until it is told to end."""

    def run(self, ctx: SourceContext) -> None:
        self.cancelled = threading.Event()
        while not self.cancelled.wait(3_600):
            pass

    def cancel(self) -> None:
        self.cancelled.set()


def cpu_ms_per_checkpoint(directory: Path, is_traced: bool, checkpoints: int) -> float:
    """Start the job, take some checkpoints, and cancel it."""
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    configuration.set_string("execution.checkpointing.interval", "1 h")
    configuration.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
    if is_traced:
        configuration.set_string("tidegate.trace.file", str(directory / "traces.json"))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(PARALLELISM)
    stream = env.add_source(Nothing()).set_parallelism(1).rebalance()
    for _ in range(OPERATORS):
        stream = stream.map(lambda value: value).rebalance()
    stream.add_sink(lambda value: None)
    client = env.execute_async("idle")
    client.trigger_checkpoint()
    began_s = time.process_time()
    for _ in range(checkpoints):
        client.trigger_checkpoint()
    spent_ms = (time.process_time() - began_s) * 1_000
    client.cancel()
    client.wait()
    return spent_ms / checkpoints


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoints", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    found: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(arguments.rounds):
        for is_traced in found:
            with tempfile.TemporaryDirectory() as directory:
                cost = cpu_ms_per_checkpoint(Path(directory), is_traced, arguments.checkpoints)
            found[is_traced].append(cost)
    without, with_traces = (statistics.median(found[is_traced]) for is_traced in (False, True))
    print(
        f"CPU per checkpoint, {SUBTASKS} subtasks: {without:.2f} ms without traces, {with_traces:.2f} ms with"
    )


if __name__ == "__main__":
    main()
