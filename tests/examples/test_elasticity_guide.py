"""The program of docs/elasticity.md runs, and is printed there as it is; its tables are the code's."""

from __future__ import annotations

import re

from tidegate.common.known_options import known_options

from .programs import ROOT, code_blocks, output_of

CUSTOMERS = 5


def test_customers_are_counted_whatever_the_parallelism() -> None:
    lines = output_of("guide", "rescale.py").splitlines()
    assert lines[:2] == ["at noon: 4", "in the evening: 1"]
    assert sorted(lines[2:]) == [f"customer {number} ordered 4000 times" for number in range(CUSTOMERS)]


def test_the_page_shows_what_runs() -> None:
    source = (ROOT / "examples/guide/rescale.py").read_text("utf-8")
    (block,) = code_blocks("elasticity.md")
    assert block in source


def test_the_page_names_every_setting() -> None:
    page = (ROOT / "docs/elasticity.md").read_text("utf-8")
    named = {key.rstrip(".") for key in re.findall(r"`([a-z][a-z.-]+)`", page)}
    wanted = {
        key
        for key in known_options()
        if key.startswith(("job.autoscaler.", "jobmanager.adaptive-scheduler."))
    }
    short = {"job.autoscaler.utilization.min", "job.autoscaler.vertex.max-parallelism"}
    missing = {key for key in wanted - named - short if f"`{key}: true`" not in page}
    assert missing == set()
