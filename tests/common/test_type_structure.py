"""The structure of declared types: one place distinguishes their classes, and all that follows it agrees."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tidegate
from tidegate.common.type_system.type_conversion import converter_of
from tidegate.common.typeinfo import TypeInformation
from tidegate.state.serializers.type_layouts import layout_of

from .test_type_conversion import CONVERTED, MATCHING

ROOT = Path(tidegate.__file__).parent
ROOMS = ("common", "state", "operators", "connectors", "datastream", "spark_bridge")


def test_one_module_distinguishes_the_classes_of_lists() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if re.search(r"\bBasicArrayTypeInfo\b", path.read_text())
    }
    where_they_are_made = {"common/typeinfo.py", "common/type_system/declared_types.py"}
    assert found - where_they_are_made == {"common/type_system/type_structure.py"}


@pytest.mark.parametrize(
    ("declared", "given"),
    [(declared, values) for declared, values in MATCHING]
    + [(declared, [given]) for declared, given, _ in CONVERTED],
    ids=str,
)
def test_what_an_operator_may_emit_fits_into_state(declared: TypeInformation, given: list[Any]) -> None:
    convert = converter_of(declared)
    assert convert is not None
    layout = layout_of(declared)
    for value in convert(given):
        assert layout.are_exact([value]) or layout.refusal(value) is None
