"""`tidegate plan`: what a driver program would run, without running it."""

from __future__ import annotations

import json

import click

from ...protocol.scheduling.execution_plan import execution_plan
from ..driver import job_of_driver
from ..output import say
from .command import Command


@click.command(
    cls=Command,
    context_settings={"allow_interspersed_args": False},
    examples=["tidegate plan driver.py", "tidegate plan --picture plan.svg driver.py --airport JFK"],
)
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, writable=True),
    help="Draw the plan into this file (.svg or .png) instead of printing it as JSON.",
)
@click.argument("driver", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def plan(picture: str | None, driver: str, arguments: tuple[str, ...]) -> None:
    """Print the plan of the job that DRIVER would run first.

    Nothing is started.
    """
    graph = job_of_driver(driver, arguments).graph
    drawn = execution_plan(graph)
    if picture is None:
        # The plan is JSON in any case: the format of Flink's, for its visualizer too.
        click.echo(json.dumps(drawn, indent=2))
        return
    # Here and not above: drawing needs libraries that nothing else does.
    from ..plan_picture import draw

    draw(drawn, graph.job_name, picture)
    count = len(drawn["nodes"])
    say({"picture": picture, "operators": count}, lambda: [f"drew {count} operators in {picture}"])
