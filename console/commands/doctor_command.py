"""`tidegate doctor`: what is missing or wrong here, and its remedy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import click

from ...common.configuration import Configuration
from ...common.options.options import CheckpointingOptions, DeploymentOptions
from ..doctor.certificates import check_certificates
from ..doctor.cluster import check_cluster, check_token
from ..doctor.finding import Finding, Severity, worst
from ..doctor.machine import check_limits, check_local_dir, check_ports, check_shared_memory
from ..doctor.storage import check_storage
from ..doctor.versions import check_java, check_packages, check_python
from ..exit_codes import ExitCode
from ..jobs import address_option
from ..output import progress, say, table
from ..settings import configuration_of, settings_options
from .command import Command

_CODES = {
    Severity.OK: ExitCode.DONE,
    Severity.NOTE: ExitCode.DONE,
    Severity.WARNING: ExitCode.WARNINGS,
    Severity.ERROR: ExitCode.FAILED,
}


@click.command(
    cls=Command,
    examples=[
        "tidegate doctor",
        "tidegate doctor -D execution.checkpointing.dir=s3://bucket/checkpoints",
        "tidegate doctor --address 10.0.0.1:6379 --conf-file config.yaml --json",
    ],
)
@click.option("--all", "-a", "with_ok", is_flag=True, help="Also show what is well.")
@settings_options
@address_option
@click.pass_context
def doctor(
    context: click.Context,
    /,
    with_ok: bool,
    settings: tuple[str, ...],
    conf_file: str | None,
    address: str | None,
) -> None:
    """Check whether jobs can run here, and suggest fixes.

    It checks versions, Java, limits, ports, the token, certificates, directories and the cluster.
    Directories are those of the settings; a probe file is written to each and removed again. Exit
    code 0: all checks passed, or only what some jobs need is missing; 8: there are warnings; 1: jobs would
    not run.
    """
    configuration = configuration_of(settings, conf_file)
    checks = _checks(configuration, address)
    findings: list[Finding] = []
    with progress("checking", len(checks)) as show:
        for number, check in enumerate(checks, 1):
            findings += check()
            show(number)
    document = {
        "worst": worst(findings).value,
        "findings": [
            {
                "check": each.check,
                "severity": each.severity.value,
                "text": each.text,
                "remedy": each.remedy or None,
            }
            for each in findings
        ],
    }
    say(document, lambda: _lines(findings, with_ok))
    context.exit(_CODES[worst(findings)])


def _checks(configuration: Configuration, address: str | None) -> list[Callable[[], Iterator[Finding]]]:
    checkpoint_dir = configuration.get(CheckpointingOptions.CHECKPOINTS_DIRECTORY)
    savepoint_dir = configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY)
    is_shared = configuration.get(DeploymentOptions.TARGET) != "local"
    directories = {"checkpoint directory": checkpoint_dir, "savepoint directory": savepoint_dir}
    stored = [(check, uri) for check, uri in directories.items() if uri is not None]
    return [
        check_python,
        check_packages,
        check_java,
        check_limits,
        check_shared_memory,
        lambda: check_local_dir(configuration.get(DeploymentOptions.LOCAL_DIR)),
        *(lambda check=check, uri=uri: check_storage(check, uri, is_shared) for check, uri in stored),
        check_ports,
        check_token,
        lambda: check_certificates(address, os.environ),
        lambda: check_cluster(address, checkpoint_dir),
    ]


def _lines(findings: list[Finding], with_ok: bool) -> Iterator[Any]:
    shown = [each for each in findings if with_ok or each.severity is not Severity.OK]
    shown.sort(key=lambda each: -each.severity.rank)
    if shown:
        texts = [f"{each.text}\n→ {each.remedy}" if each.remedy else each.text for each in shown]
        rows = [[each.severity.value, each.check, text] for each, text in zip(shown, texts)]
        yield table(["severity", "check", "finding"], rows)
        yield ""
    well = sum(each.severity is Severity.OK for each in findings)
    yield f"{well} of {len(findings)} checks passed"
