"""What the OpenAPI document allows, and much that it does not, has an answer that the document knows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from tidegate.console.rest.app import guarded_app
from tidegate.console.rest.guard import Access
from tidegate.console.rest.tokens import ConsoleSecret

from tests.console.rest.jobs import UNKNOWN, all_jobs, id_of

_DIRECTORY = tempfile.TemporaryDirectory(prefix="tidegate-archive-")
_TOKEN = "0123456789abcdef"
_ACCESS = Access(ConsoleSecret(_TOKEN), hosts=frozenset({"testserver"}))
_APP = guarded_app(all_jobs(Path(_DIRECTORY.name)), _ACCESS)
_SCHEMA = schemathesis.openapi.from_asgi("/v1/openapi.json", _APP)


@_SCHEMA.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any]) -> dict[str, Any]:
    """Random ids are those of no job: most are made those of one, and one stays unknown."""
    job_id = (path_parameters or {}).get("jobid", "")
    if isinstance(job_id, str) and len(job_id) == 32 and set(job_id) <= set("0123456789abcdef"):
        path_parameters["jobid"] = id_of(int(job_id, 16) % UNKNOWN + 1)
        if str(path_parameters.get("vertexid", "")).startswith("task-"):
            path_parameters["vertexid"] = f"task-{int(job_id, 16) % 5}"
        if isinstance(path_parameters.get("checkpointid"), int):
            path_parameters["checkpointid"] %= 40
    return path_parameters


@_SCHEMA.parametrize()
@settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_one_that_the_document_tells_of(case: Any) -> None:
    case.call_and_validate(headers={"Authorization": f"Bearer {_TOKEN}"})
