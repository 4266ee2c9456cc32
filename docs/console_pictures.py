"""Takes the pictures of the web console for the guide, of a fake job whose figures move.

Run it with `python -m docs.console_pictures` (extra `dev`, and Chromium: `make chromium`). With a directory
as its argument it puts more there, to look at: every page, light, dark and narrow.
"""

from __future__ import annotations

import itertools
import math
import re
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright
from tidegate.common.job_id import JobID
from tidegate.console.rest.directory import LiveJobs
from tidegate.console.rest.server import ServerSettings, served
from tidegate.console.rest.tokens import ConsoleSecret
from tidegate.coordinator.control.job_client import JobClient
from tidegate.coordinator.monitoring.job_details import JobDetails, SubtaskDetails
from tidegate.coordinator.monitoring.statistics import TaskShape
from tidegate.protocol.task_metrics import TaskRates

from tests.fake_jobs import FakeJob, fake_job

PICTURES_DIR = Path(__file__).parent / "guide" / "pictures"
WAIT_MS = 120_000
POINTS = 12
"""So many moments make the line of throughput worth looking at."""
NAMES = {
    "read": "departures",
    "enrich 1: decode": "parse",
    "enrich 1": "by aircraft",
    "enrich 2: decode": "inherited delay",
    "enrich 2": "late only",
    "write: decode": "by airline",
    "write": "report",
}
LOADS = {"task-1": (0.22, 0.71), "task-2": (0.31, 0.52), "task-4": (0.97, 0.0), "task-6": (0.18, 0.0)}
"""Busy and backpressured, by task."""


class MovingJob(FakeJob):
    """The fake job of today, with another throughput at every look."""

    def details(self) -> JobDetails:
        told = super().details()
        now_ms = int(time.time() * 1_000)
        later_ms = now_ms - told.now_ms
        statistics = told.report.statistics
        checkpoints = type(statistics.checkpoints)(
            replace(each, triggered_ms=each.triggered_ms + later_ms) for each in statistics.checkpoints
        )
        return replace(
            told,
            now_ms=now_ms,
            started_ms=told.started_ms + later_ms,
            subtasks=tuple(_moved(each, now_ms, later_ms) for each in told.subtasks),
            report=replace(told.report, statistics=replace(statistics, checkpoints=checkpoints)),
        )


def _moved(subtask: SubtaskDetails, now_ms: int, later_ms: int) -> SubtaskDetails:
    busy, backpressured = LOADS[subtask.subtask.task_id]
    # Slow waves of the stream, and one subtask that gets more than the others.
    wave = 1 + 0.06 * math.sin(now_ms / 700) + 0.03 * math.sin(now_ms / 190)
    records = 14_000 * wave * (1.5 if subtask.subtask.index == 1 else 1)
    is_source = subtask.subtask.task_id == "task-1"
    rates = TaskRates(
        0 if is_source else records,
        records * (0.2 if subtask.subtask.task_id == "task-4" else 1),
        records * 48,
        records * 40,
        busy * 1_000,
        backpressured * 1_000,
        (1 - busy - backpressured) * 1_000,
    )
    metrics = replace(
        subtask.metrics,
        watermark_ms=(subtask.metrics.watermark_ms or 0) + later_ms + 900,
        state_bytes=9 << 20,
    )
    return replace(subtask, rates=rates, metrics=metrics, metrics_ms=now_ms)


def job() -> JobClient:
    """A job with the names of the flights demo."""
    told = fake_job(1, parallelism=4, checkpoints=69)
    nodes = [{**node, "type": _named(str(node["type"]))} for node in told.plan["nodes"]]
    statistics = told.report.statistics
    statistics.checkpoints = type(statistics.checkpoints)(
        replace(
            each,
            shape={task: _renamed(shape) for task, shape in each.shape.items()},
            duration_ms=max(
                (part.acknowledged_ms or 0.0 for part in each.subtasks.values()), default=each.duration_ms
            ),
        )
        for each in statistics.checkpoints
    )
    report = replace(told.report, job_name="flights")
    details = replace(told, job_id=f"{0xF119475:032x}", report=report, plan={"nodes": nodes})
    return JobClient(JobID(details.job_id), MovingJob(details))


def _named(kind: str) -> str:
    prefix, colon, name = kind.partition(": ")
    return f"{prefix}: {NAMES[name]}" if colon and prefix in ("Source", "Sink") else NAMES[kind]


def _renamed(shape: TaskShape) -> TaskShape:
    return replace(shape, name=" -> ".join(NAMES.get(each, each) for each in shape.name.split(" -> ")))


def open_page(browser: Browser, address: str, scheme: str, size: tuple[int, int]) -> Page:
    """A page, once its line of throughput has some length."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page.goto(address)
    expect(page.locator(".spark path").last).to_have_attribute("d", re.compile(f"(L.*){{{POINTS}}}"))
    return page


def take(browser: Browser, where: str, target: Path, is_for_looking: bool) -> None:
    """All pictures."""
    views = {"console": f"{where}/graph", "console-checkpoint": f"{where}/checkpoints/68"}
    shapes = {"": ("light", (1280, 560))}
    if is_for_looking:
        views |= {name: f"{where}/{name}" for name in ("graph/task-4", "checkpoints", "configuration")}
        shapes |= {"-dark": ("dark", (1280, 800)), "-narrow": ("light", (700, 1_000))}
    for (name, view), (ending, (scheme, size)) in itertools.product(views.items(), shapes.items()):
        is_tall = name == "console-checkpoint" and not ending
        page = open_page(browser, view, scheme, (size[0], 1_060) if is_tall else size)
        page.screenshot(path=target / f"{name.replace('/', '-')}{ending}.png")
        page.close()


def main() -> None:
    """Serve the job, take the pictures."""
    is_for_looking = len(sys.argv) > 1
    target = Path(sys.argv[1]) if is_for_looking else PICTURES_DIR
    target.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=WAIT_MS)
    client = job()
    settings = ServerSettings(port=0, secret=ConsoleSecret("only for these pictures"))
    with served(LiveJobs.of([client]), settings) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        take(browser, f"{address}/#/jobs/{client.get_job_id()}", target, is_for_looking)
        browser.close()


if __name__ == "__main__":
    main()
