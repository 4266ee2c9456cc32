"""Serves the console for one job in this process, as long as it runs."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence

from ..coordinator.control.job_client import JobClient
from .extra import require_extra

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def console_of(client: JobClient, host: str, port: int, archives: Sequence[str]) -> Iterator[None]:
    """Serve a job, and jobs that were archived before; the token is that of `TIDEGATE_CONSOLE_TOKEN`.

    Raises:
        ConfigurationError: The extra is missing, or it would listen beyond this machine without a token.
        ResourceError: The address cannot be listened on.
    """
    require_extra()
    from .rest.archived_jobs import ArchivedJobs
    from .rest.directory import AllJobs, LiveJobs
    from .rest.server import ServerSettings, served
    from .rest.tokens import VARIABLE, ConsoleSecret

    token = os.environ.get(VARIABLE)
    settings = ServerSettings(host=host, port=port, secret=None if token is None else ConsoleSecret(token))
    jobs = AllJobs([LiveJobs.of([client]), *map(ArchivedJobs, archives)])
    with served(jobs, settings) as address:
        # A warning, since that is what Python shows unasked.
        logger.warning("The console of the job is at %s", address)
        yield
