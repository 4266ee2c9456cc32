"""The program of docs/elasticity.md runs, and is printed there as it is."""

from __future__ import annotations

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
