"""Programs of the guide: sources, sinks, watermarks, process functions; as a reader would start them."""

from __future__ import annotations

import pytest

from .programs import output_of


@pytest.mark.parametrize(
    ("program", "output"),
    [
        ("source_function.py", "one two three\n"),
        ("split_source.py", "a b c d e f\n"),
        ("watermarks.py", "('a', 1000) ('b', 3000) ('a', 2000) ('flush', 3000) ('b', 9000)\n" * 2),
        (
            "process_function.py",
            "ada came back\nada: 2 logins until 9000\nbob: 1 logins until 2000\neve: 1 logins until 30000\n",
        ),
        ("sinks.py", "['0 None', '1 None']\n[0, 1, 2, 3, 4]\n"),
    ],
)
def test_a_program_of_the_guide_prints_what_it_should(program: str, output: str) -> None:
    assert output_of("guide", program) == output
