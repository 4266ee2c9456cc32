"""The programs of the guide's pages on streams print what the pages say."""

from __future__ import annotations

import pytest

from .programs import ROOT, code_blocks, output_of


@pytest.mark.parametrize(
    ("program", "output"),
    [
        (
            "streams.py",
            "tea> (Ada,3)\ntea> (Bob,5)\ntea> (Ada,4)\norder of Ada\norder of Bob\nprice of ink\n",
        ),
        (
            "partitioning.py",
            "rebalance (1, 0) (2, 1) (300, 2)\n"
            "broadcast (1, 0) (1, 1) (1, 2) (2, 0) (2, 1) (2, 2) (300, 0) (300, 1) (300, 2)\n"
            "global_ (1, 0) (2, 0) (300, 0)\n"
            "custom (1, 1) (2, 0) (300, 2)\n",
        ),
        ("broadcast_state.py", "Ada ordered 15, the limit is 10\n"),
        ("side_outputs.py", "reading> 20.5\nreading> 21.0\nbroken> 'cold' is no number\n"),
    ],
)
def test_a_program_of_the_guide_prints_what_it_should(program: str, output: str) -> None:
    assert sorted(output_of("guide", program).splitlines()) == sorted(output.splitlines())


def test_the_page_on_batch_mode_shows_what_comes_out() -> None:
    (shown,) = code_blocks("guide/batch-mode.md", "")
    assert output_of("guide", "batch_mode.py") == shown + "longest 3 total 13\n"


def test_the_page_on_plans_shows_what_comes_out() -> None:
    nodes = [line for line in output_of("guide", "plan.py").splitlines() if "task" in line]
    assert len(nodes) == 4
    assert "\n```\n" + "\n".join(nodes) + "\n```\n" in (ROOT / "docs/guide/plan.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("page", "program", "count"),
    [
        ("streams.md", "streams.py", 2),
        ("partitioning.md", "partitioning.py", 1),
        ("broadcast-state.md", "broadcast_state.py", 2),
        ("side-outputs.md", "side_outputs.py", 2),
        ("batch-mode.md", "batch_mode.py", 1),
        ("plan.md", "plan.py", 1),
    ],
)
def test_the_page_shows_parts_of_the_program(page: str, program: str, count: int) -> None:
    source = (ROOT / "examples/guide" / program).read_text("utf-8")
    assert sum(block in source for block in code_blocks(f"guide/{page}")) == count
