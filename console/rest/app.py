"""Puts the REST API together."""

from __future__ import annotations

import logging
import re
import uuid
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from ... import __version__
from ...common.errors import (
    CheckpointStorageError,
    CorruptArchiveError,
    CorruptCheckpointError,
    ResourceError,
    StateError,
    TidegateError,
)
from . import action_routes, checkpoint_routes, job_routes
from .directory import JobDirectory
from .guard import Access, Guard
from .models import job_models as models
from .page import WEB, Page
from .requests import Console
from .savepoint_targets import TargetRefusedError
from .views.job_views import shortened

logger = logging.getLogger(__name__)

_ID, _IDS = "[0-9a-f]{32}", ("jobid", "triggerid")
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": models.Problem, "description": "The request was not understood."},
    401: {"model": models.Problem, "description": "There is no token, or it is wrong or has expired."},
    403: {"model": models.Problem, "description": "That is not allowed here."},
    404: {"model": models.Problem, "description": "There is no such job, vertex, checkpoint or action."},
    409: {"model": models.Problem, "description": "The job cannot do that now."},
    413: {"model": models.Problem, "description": "The request is too large."},
    503: {"model": models.Problem, "description": "The cluster or the storage does not answer."},
}


def create_app(jobs: JobDirectory, access: Access | None = None, page: Path = WEB) -> FastAPI:
    """The application, without its guard.

    Args:
        jobs: Where jobs are found.
        access: Who may ask what; of it the application itself needs where savepoints may go.
        page: Directory of the page's files.
    """
    app = FastAPI(
        title="Tidegate",
        version=__version__,
        description="Watches and steers stream jobs, with paths like those of Flink's REST API.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        # A redirect would be an answer that nobody asked for.
        redirect_slashes=False,
    )
    access = access or Access()
    app.state.console = Console(jobs, access.savepoint_roots, can_act=access.secret is not None)
    routes = APIRouter(prefix="/v1", responses=_PROBLEMS)
    routes.include_router(job_routes.router)
    routes.include_router(checkpoint_routes.router)
    routes.include_router(action_routes.router)
    routes.add_api_route("/openapi.json", lambda: document_of(app), include_in_schema=False)
    app.include_router(routes)
    # Only for what no route knows, so that a wrong method of a known path stays an error of its own.
    app.router.default = Page(page)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_exception_handler(TidegateError, _failed)
    app.add_exception_handler(Exception, _broken)
    return app


def guarded_app(jobs: JobDirectory, access: Access, page: Path = WEB) -> Guard:
    """The application behind its guard: what is to be served."""
    return Guard(create_app(jobs, access, page), access)


def document_of(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of an application: with the token that actions need."""
    document = app.openapi()
    components = document.setdefault("components", {})
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path in document["paths"].values():
        for method, operation in path.items():
            # What has no token in the document may need one all the same, beyond loopback.
            operation["security"] = [{"token": []}] if method != "get" else [{}, {"token": []}]
            # Requests that are not understood are answered with 400.
            operation["responses"].pop("422", None)
    return document


def problem(status_code: int, *texts: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An answer that says why there is no other."""
    return JSONResponse({"errors": [shortened(text, 4_000) for text in texts]}, status_code, headers=headers)


async def _not_understood(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # Without the input: what was sent by mistake, such as a token, must not come back or be logged.
    texts = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    return problem(400, *texts[:20])


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StarletteHTTPException)
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if error.status_code == 405:
        # Each route only knows its own methods, and several may share a path.
        headers["allow"] = ", ".join(_methods(request)) or "GET"
    return problem(error.status_code, str(error.detail), headers=headers)


def _methods(request: Request) -> list[str]:
    """The methods that the path of a request knows."""
    documented = document_of(request.app)["paths"].items()
    fitting = [methods for path, methods in documented if _pattern(path).fullmatch(request.url.path)]
    return sorted({name.upper() for methods in fitting for name in methods})


@lru_cache
def _pattern(path: str) -> re.Pattern[str]:
    """What fits to a path of the document."""
    parts = [
        (_ID if part[1:-1] in _IDS else "[^/]+") if part.startswith("{") else re.escape(part)
        for part in path.split("/")
    ]
    return re.compile("/".join(parts))


async def _failed(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, TargetRefusedError):
        return problem(403, str(error))
    if isinstance(error, (StateError, CorruptArchiveError, CorruptCheckpointError)):
        return problem(404, str(error))
    if isinstance(error, (ResourceError, CheckpointStorageError)):
        return problem(503, str(error))
    return problem(409, str(error))


async def _broken(request: Request, error: Exception) -> JSONResponse:
    number = uuid.uuid4().hex[:8]
    logger.error("A request for the route %s failed (%s)", request.scope.get("route"), number, exc_info=error)
    return problem(500, f"this failed in an unexpected way; the console's log tells more under {number}")
