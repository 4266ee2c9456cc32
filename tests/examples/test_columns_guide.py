"""The program of docs/guide/columns.md runs, and is printed there as it is."""

from __future__ import annotations

from .programs import ROOT, code_blocks, output_of

EXPECTED = """\
large orders
   south 10.0
   north 12.0
   south 10.0
   east 9.0
running
   north 1 4.0 4.0
   south 1 10.0 10.0
   north 2 16.0 8.0
   south 2 20.0 10.0
   north 3 18.0 6.0
   east 1 9.0 9.0
per ten seconds
   north 0 10000 2 6.0
   south 0 10000 1 2.5
   north 10000 20000 1 2.0
   south 10000 20000 1 1.0
   east 20000 30000 1 9.0
median pieces
   north 0 60000 1.0
   south 0 60000 4.0
   east 0 60000 1.0
largest so far
   north 12.0
   south 10.0
   east 9.0
"""


def test_the_program_gives_what_its_page_says() -> None:
    assert output_of("guide", "columns.py") == EXPECTED


def test_the_page_shows_what_runs() -> None:
    source = (ROOT / "examples/guide/columns.py").read_text("utf-8")
    blocks = code_blocks("guide/columns.md")
    assert len(blocks) == 5
    assert [block for block in blocks if block not in source] == []
