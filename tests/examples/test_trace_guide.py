"""The program of docs/telemetry.md explains a checkpoint, as the page shows it."""

from __future__ import annotations

import re

from .programs import ROOT, code_blocks, output_of

STEP = re.compile(r"^[> ] +[0-9.]+ (ms|s|min) \+ +[0-9.]+ (ms|s|min)  checkpoint\.[a-z_]+ +\S.*$")
SUBTASK = re.compile(r"  (orders -> parse|enrich|totals -> sink) \([1-4]/[24]\) ")


def assert_explanation(text: str) -> None:
    heading, _, longest, _, *steps = text.splitlines()
    assert re.match(r"(checkpoint|final) \d+: completed in ", heading)
    assert longest.startswith("Longest: ")
    assert all(STEP.match(step) for step in steps)
    (marked,) = [step for step in steps if step.startswith(">")]
    assert marked.endswith(longest.removeprefix("Longest: ").rstrip(".").partition(": ")[2]) or (
        longest.removeprefix("Longest: ").rstrip(".") in marked
    )
    # The last to acknowledge is most often the last task, but on a busy machine any of them.
    assert any(SUBTASK.search(step) for step in steps)
    assert "coordinator" in steps[-1]


def test_the_program_says_what_made_its_slowest_checkpoint_slow() -> None:
    assert_explanation(output_of("guide", "trace.py"))


def test_the_page_shows_such_an_explanation_and_its_picture() -> None:
    (shown,) = [block for block in code_blocks("telemetry.md", "text") if "Longest" in block]
    assert_explanation(shown)
    assert "totals -> sink" in shown
    assert "was busy in user code" in shown
    page = (ROOT / "docs" / "telemetry.md").read_text("utf-8")
    assert "(guide/pictures/trace.png)" in page
    assert (ROOT / "docs" / "guide" / "pictures" / "trace.png").read_bytes()[:4] == b"\x89PNG"
