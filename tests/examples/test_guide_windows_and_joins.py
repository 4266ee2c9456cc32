"""The programs of the guide's pages on windows and joins, as a reader would start them."""

from __future__ import annotations

import pytest

from .programs import output_of

WINDOWS = """ten seconds:
  home from 0 s to 10 s: 2
  home from 10 s to 20 s: 1
  news from 0 s to 10 s: 1
  news from 30 s to 40 s: 1
too late:
  ('home', 2)
with five seconds for late ones:
  home from 0 s to 10 s: 2
  home from 0 s to 10 s: 3
  home from 10 s to 20 s: 1
  news from 0 s to 10 s: 1
  news from 30 s to 40 s: 1
sessions:
  home from 1 s to 23 s: 4
  news from 31 s to 41 s: 1
  news from 5 s to 15 s: 1
every two clicks:
  ('home', 13)
  ('home', 4)
  ('news', 31)
"""

JOINS = """join:
  ann: book 12 EUR
co-group:
  ['book'] ['12 EUR']
  ['lamp'] []
  ['pen'] []
  [] ['40 EUR']
  [] ['7 EUR']
interval join:
  ann: book paid after 3 s
  ann: lamp paid after 3 s
"""


@pytest.mark.parametrize(("program", "output"), [("windows.py", WINDOWS), ("joins.py", JOINS)])
def test_a_program_of_the_guide_prints_what_it_should(program: str, output: str) -> None:
    assert output_of("guide", program) == output
