"""The web console that a local job serves while it runs, when `rest.port` is set."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ..common.configuration import Configuration
from ..common.job_id import JobID
from ..common.options.options import HistoryServerOptions, JobManagerOptions, RestOptions
from ..coordinator.control.job_client import JobClient, JobHandle

Beside = Callable[[JobHandle, str], AbstractContextManager[Any]]


def console_beside(configuration: Configuration) -> Beside:
    """What a local job with these settings has beside it: a console, or nothing."""
    port = configuration.get(RestOptions.PORT)
    if port is None:
        return lambda handle, job_id: contextlib.nullcontext()
    host = configuration.get(RestOptions.BIND_ADDRESS)
    archives = configuration.get(HistoryServerOptions.HISTORY_SERVER_ARCHIVE_DIRS)
    archives = archives or configuration.get(JobManagerOptions.ARCHIVE_DIR) or ""
    # By its name, since the console is a room above this one: it may be missing, and nothing here needs it.
    embedded = importlib.import_module("..console.rest_beside_job", __package__)
    directories = [directory.strip() for directory in archives.split(",") if directory.strip()]

    def beside(handle: JobHandle, job_id: str) -> AbstractContextManager[Any]:
        found: AbstractContextManager[Any] = embedded.console_of(
            JobClient(JobID(job_id), handle), host, port, directories
        )
        return found

    return beside
