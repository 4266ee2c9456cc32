from __future__ import annotations

import re
from pathlib import Path

from tidegate.telemetry import spans

DOCUMENT = Path(__file__).parents[2] / "docs" / "telemetry.md"


def test_the_documented_names_are_exactly_those_of_the_code() -> None:
    documented = re.findall(r"^\| `([a-z_.]+)` \|", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    in_code = [
        value
        for name, value in vars(spans).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str)
    ]
    assert sorted(documented) == sorted(in_code)
    assert len(set(in_code)) == len(in_code)
