"""`tidegate console`: serve the web console and its REST API."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..extra import require_extra
from ..jobs import address_option
from ..output import note, say
from .command import Command

if TYPE_CHECKING:
    from ..rest.directory import JobDirectory

_EXAMPLES = [
    "tidegate console",
    "tidegate console --archive s3://bucket/archive --port 0",
    "tidegate console --host 0.0.0.0 --token-file /run/secrets/console-token",
]


@click.command("console", cls=Command, examples=_EXAMPLES)
@address_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8081,
    show_default=True,
    help="Port to listen on; 0 takes any free one.",
)
@click.option(
    "--archive",
    "archives",
    multiple=True,
    metavar="DIR",
    help="Where jobs were archived (jobmanager.archive.fs.dir). Alone, no cluster is looked for.",
)
@click.option(
    "--checkpoints",
    "checkpoints",
    multiple=True,
    metavar="DIR",
    help="Where jobs keep checkpoints (execution.checkpointing.dir): tells of those that left no archive.",
)
@click.option(
    "--savepoint-root", "roots", multiple=True, metavar="DIR", help="Savepoints may be sent below it, too."
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Holds the token, and is made if it is not there; TIDEGATE_CONSOLE_TOKEN goes before it.",
)
@click.option(
    "--token-ttl",
    "ttl_s",
    type=click.IntRange(min=1),
    metavar="SECONDS",
    help="Print an address whose token ends after so long, instead of the token itself.",
)
def console(
    address: str | None,
    host: str,
    port: int,
    archives: tuple[str, ...],
    checkpoints: tuple[str, ...],
    roots: tuple[str, ...],
    token_file: Path | None,
    ttl_s: int | None,
) -> None:
    """Serve the web console for running and archived jobs.

    It runs until it is interrupted. On this machine any client may read. Actions need the token, which the
    printed address holds; beyond this machine everything does.
    """
    require_extra()
    from ..rest.server import ServerSettings, serve
    from ..rest.tokens import ConsoleSecret

    token = _token(token_file)
    secret = ConsoleSecret(token)
    settings = ServerSettings(host=host, port=port, secret=secret, savepoint_roots=roots)
    for option, directories in (("--archive", archives), ("--checkpoints", checkpoints)):
        _check_local(option, directories)
    jobs = _directory(address, archives, checkpoints)
    shown = token if ttl_s is None else secret.token_until(int(time.time()) + ttl_s)

    def ready(url: str) -> None:
        # Behind '#': browsers keep that to themselves, so it is in no request, no log and no proxy.
        page = f"{url}/#token={shown}"
        say({"url": url, "page": page}, lambda: [page])
        note(f"listening on {url}; stop with Ctrl-C")

    # Actions are logged, with the job and the outcome.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # Ctrl-C is how a console ends.
    with contextlib.suppress(KeyboardInterrupt):
        serve(jobs, settings, ready)


def _check_local(option: str, directories: tuple[str, ...]) -> None:
    """A local directory that is missing is a mistake; an object store has no empty directories."""
    for directory in directories:
        path = directory.removeprefix("file://")
        if "://" not in path and not os.path.isdir(path):
            raise click.BadParameter(f"{path} is not a directory", param_hint=option)


def _token(file: Path | None) -> str:
    from ..rest.tokens import VARIABLE, default_token_file, stored_secret

    return os.environ.get(VARIABLE) or stored_secret(file or default_token_file())


def _directory(address: str | None, archives: tuple[str, ...], checkpoints: tuple[str, ...]) -> JobDirectory:
    from ..rest.archived_jobs import ArchivedJobs
    from ..rest.directory import AllJobs, LiveJobs, RayJobs
    from ..rest.stored_jobs import StoredJobs

    # A running job knows most of itself, its checkpoints the least.
    directories: list[JobDirectory] = [*map(ArchivedJobs, archives), *map(StoredJobs, checkpoints)]
    if address is not None or os.environ.get("RAY_ADDRESS") or not directories:
        running = RayJobs(address)
        # Now and not at the first request: a console without a cluster is a mistake to tell at once.
        running()
        directories.insert(0, LiveJobs(running))
    return AllJobs(directories)
