from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys

import pytest
import tidegate.common

MODULES = [
    "tidegate.common",
    *(
        f"tidegate.common.{module.name}"
        for module in pkgutil.iter_modules(tidegate.common.__path__)
        if not module.ispkg
    ),
]


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith(".errors")])
def test_every_name_in_all_exists_and_the_list_is_sorted(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__all__ == sorted(module.__all__)
    assert [export for export in module.__all__ if not hasattr(module, export)] == []


def test_the_names_that_pyflink_programs_import_from_common_are_there() -> None:
    wanted = {"Types", "Row", "RowKind", "WatermarkStrategy", "Configuration", "Time", "Duration"}
    wanted |= {"Instant", "JobStatus", "JobID", "RestartStrategies", "TypeInformation"}
    assert wanted <= set(tidegate.common.__all__)


def test_common_loads_nothing_but_itself_and_the_standard_library() -> None:
    program = (
        "import sys, json; before = set(sys.modules); from tidegate.common import *; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    foreign = [
        name
        for name in json.loads(output)
        if name.split(".")[0] not in sys.stdlib_module_names
        and name != "tidegate"
        and not f"{name}.".startswith("tidegate.common.")
    ]
    assert foreign == []
