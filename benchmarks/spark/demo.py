"""Take `make demo` apart: what takes the time between the moment Spark has started and the end of the job.

    python -m benchmarks.spark.demo [-- --rate 0]

It runs `examples/flights` as `make demo` does, with the kill of a process. It prints when the job's log says
what, when Spark ran each epoch (from Spark's event log), and the CPU time of each kind of process
in each phase. Options after `--` are those of the demo.
"""

from __future__ import annotations

import datetime
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from ..parts import row
from .common import kind_of

GOAL_S = 10.0
_SAMPLE_S = 0.25
_DEMO = Path(__file__).parents[2] / "examples" / "flights" / "main.py"
_MARKS = {
    "the job runs": re.compile(r"The job flights runs"),
    "the start of the session begins": re.compile(r"Spark session: starting"),
    "Spark has started": re.compile(r"Spark session: ready"),
    "a process was killed": re.compile(r"The job flights restarts"),
    "the job has ended": re.compile(r"The job flights is FINISHED"),
}


class Watch:
    """What the processes of the demo use."""

    def __init__(self, demo: psutil.Process) -> None:
        self._demo = demo
        self._kinds: dict[int, str] = {}
        self._samples: list[tuple[float, dict[int, float]]] = []

    def look(self) -> None:
        """Take a sample."""
        used = dict(self._samples[-1][1]) if self._samples else {}
        for process in [self._demo, *self._demo.children(recursive=True)]:
            with suppress(psutil.Error):
                kind = "the program" if process == self._demo else kind_of(process)
                # The title of a Ray process contains the method that it runs.
                self._kinds[process.pid] = kind.split(".")[0]
                times = process.cpu_times()
                used[process.pid] = times.user + times.system
        self._samples.append((time.time(), used))

    def used(self, from_s: float, to_s: float) -> dict[str, float]:
        """CPU seconds by kind of process between two moments."""
        before, after = self._at(from_s), self._at(to_s)
        found = dict.fromkeys(self._kinds.values(), 0.0)
        for pid, seconds in after.items():
            found[self._kinds[pid]] += seconds - before.get(pid, 0.0)
        return found

    def _at(self, when_s: float) -> dict[int, float]:
        return next((used for at_s, used in reversed(self._samples) if at_s <= when_s), {})


def marks(logs: Path) -> dict[str, float]:
    """When the log of a process has these lines, in seconds of the epoch."""
    found: dict[str, float] = {}
    lines = {line for file in logs.glob("*.*") for line in file.read_text(errors="replace").splitlines()}
    for line in sorted(lines):
        for name, pattern in _MARKS.items():
            if name not in found and pattern.search(line):
                found[name] = _seconds(line.split()[0])
    return found


def _seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def epochs(directory: Path) -> list[tuple[float, float, str]]:
    """When the first Spark job of each run of an epoch began, when the last ended, and its description."""
    began: dict[int, tuple[float, str, str]] = {}
    found: dict[str, tuple[float, float, str]] = {}
    for line in "".join(file.read_text() for file in directory.iterdir()).splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerJobStart":
            properties = event["Properties"]
            group, what = (properties.get(f"spark.{key}", "") for key in ("jobGroup.id", "job.description"))
            began[event["Job ID"]] = event["Submission Time"] / 1_000, group, what
        elif event["Event"] == "SparkListenerJobEnd":
            began_s, group, what = began[event["Job ID"]]
            first_s = found.get(group, (began_s, 0.0, what))[0]
            found[group] = first_s, event["Completion Time"] / 1_000, what
    return sorted(found.values())


def run(directory: str, options: list[str]) -> tuple[Watch, dict[str, float], str]:
    """Run the demo; what it used, when what happened, and what it printed."""
    Path(directory, "events").mkdir()
    defaults = f"spark.eventLog.enabled true\nspark.eventLog.dir file://{directory}/events\n"
    Path(directory, "spark-defaults.conf").write_text(defaults)
    command = [sys.executable, str(_DEMO), "--directory", f"{directory}/flights", *options]
    with open(f"{directory}/out", "w+", encoding="utf-8") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env=os.environ | {"SPARK_CONF_DIR": directory}
        )
        watch = Watch(psutil.Process(process.pid))
        while process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                watch.look()
            time.sleep(_SAMPLE_S)
        out.seek(0)
        text = out.read()
    assert process.returncode == 0, text
    logs = re.search(r"tasks' logs: *(\S+)", text)
    assert logs is not None, text
    return watch, marks(Path(logs[1])), text


def main() -> None:
    options = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
        watch, found, text = run(directory, options)
        ran = epochs(Path(directory, "events"))
    begun_s = found["the job runs"]
    print("\n".join(line for line in text.splitlines() if line.startswith(("Recovered", "The job took"))))
    print("\n| s | |\n|---|---|")
    events = [(at, name) for name, at in found.items()]
    events += [(began, f"{what}: Spark needs {end - began:.1f} s") for began, end, what in ran]
    for at, name in sorted(events):
        print(f"| {at - begun_s:.1f} | {name} |")
    ends = sorted(found.items(), key=lambda item: item[1])
    phases = list(itertools.pairwise(ends))
    print("\n| CPU s | " + " | ".join(f"until {after[0]}" for _, after in phases) + " |")
    print("|---|" + "---|" * len(phases))
    used = [watch.used(before[1], after[1]) for before, after in phases]
    for kind in sorted(used[0], key=lambda kind: -sum(phase[kind] for phase in used)):
        print(f"| {kind} | " + " | ".join(f"{phase[kind]:.1f}" for phase in used) + " |")
    took_s = found["the job has ended"] - found["Spark has started"]
    row(
        f"the job, from the moment Spark has started, at most {GOAL_S:g} s",
        f"{took_s:.1f} s",
        took_s <= GOAL_S,
    )


if __name__ == "__main__":
    main()
