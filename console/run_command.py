"""`tidegate run`: runs a driver program with settings from outside."""

from __future__ import annotations

import os
import runpy
from collections.abc import Mapping

import click
import yaml

from ..common.config_options import MAP, value_text
from ..common.configuration import Configuration
from ..common.errors import ConfigurationError
from ..common.known_options import check_settings, known_options
from ..common.options import StateRecoveryOptions
from ..datastream.default_settings import default_settings
from .driver import as_main_program


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--conf", "-D", "settings", multiple=True, metavar="KEY=VALUE", help="One setting; repeatable.")
@click.option(
    "--conf-file",
    type=click.Path(exists=True, dir_okay=False),
    help="YAML file of settings, as Flink's config.yaml: nested, or with dots in the keys.",
)
@click.option(
    "--from-savepoint",
    "--savepoint",
    "-s",
    "savepoint",
    metavar="PATH",
    help="Start from this savepoint or checkpoint.",
)
@click.option(
    "--allow-non-restored-state", "-n", is_flag=True, help="State of operators that are gone may be dropped."
)
@click.option(
    "--restore-mode",
    type=click.Choice(["NO_CLAIM", "CLAIM"], case_sensitive=False),
    help="Whether the job owns what it is started from, and removes it in the end.",
)
@click.argument("driver", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    settings: tuple[str, ...],
    conf_file: str | None,
    savepoint: str | None,
    allow_non_restored_state: bool,
    restore_mode: str | None,
    driver: str,
    arguments: tuple[str, ...],
) -> None:
    """Run DRIVER with ARGUMENTS, as `python DRIVER ARGUMENTS` would, with these settings.

    They hold for every environment that DRIVER creates. What DRIVER itself sets goes before them, and
    --conf goes before --conf-file.
    """
    configuration = Configuration()
    if conf_file is not None:
        for key, value in settings_of_file(conf_file).items():
            configuration.set_string(key, value)
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"{setting!r} is not KEY=VALUE", param_hint="--conf")
        configuration.set_string(key.strip(), value.strip())
    if savepoint is not None:
        configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, savepoint)
    if allow_non_restored_state:
        configuration.set(StateRecoveryOptions.SAVEPOINT_IGNORE_UNCLAIMED_STATE, True)
    if restore_mode is not None:
        configuration.set(StateRecoveryOptions.RESTORE_MODE, restore_mode)
    check_settings(configuration)
    with as_main_program(driver, arguments), default_settings(configuration):
        runpy.run_path(driver, run_name="__main__")


def settings_of_file(path: str) -> dict[str, str]:
    """The settings in a YAML file, with the keys of nested maps joined by dots.

    Raises:
        ConfigurationError: It is no YAML, or not a map.
    """
    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.safe_load(file)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not a YAML file: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise ConfigurationError(f"{path} has to hold a map of settings, such as `parallelism.default: 4`")
    return _flat(content, "", os.path.basename(path))


def _flat(content: Mapping[object, object], prefix: str, file: str) -> dict[str, str]:
    options = known_options()
    flat: dict[str, str] = {}
    for name, value in content.items():
        key = f"{prefix}{name}"
        option = options.get(key)
        if isinstance(value, Mapping) and (option is None or option.type is not MAP):
            flat.update(_flat(value, f"{key}.", file))
        elif value is None or isinstance(value, list):
            raise ConfigurationError(f"{key} in {file} is {value!r}; give it one value, or remove it")
        else:
            flat[key] = value_text(value)
    return flat
