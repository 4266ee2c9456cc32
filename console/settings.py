"""Settings that come from the command line: single ones and files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import yaml

from ..common.config_options import MAP, value_text
from ..common.configuration import Configuration
from ..common.errors import ConfigurationError
from ..common.options.known_options import check_settings, known_options


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --conf (`settings`) and --conf-file (`conf_file`)."""
    single = click.option(
        "--conf", "-D", "settings", multiple=True, metavar="KEY=VALUE", help="One setting; repeatable."
    )
    file = click.option(
        "--conf-file",
        type=click.Path(exists=True, dir_okay=False),
        help="YAML file of settings, as Flink's config.yaml: nested, or with dots in the keys.",
    )
    return single(file(command))


def configuration_of(settings: Sequence[str], conf_file: str | None) -> Configuration:
    """The settings of both options; single ones go before those of the file.

    Raises:
        click.UsageError: A key is not known, a value cannot be read, the file is none, or a single setting is
            not KEY=VALUE.
    """
    try:
        return _checked(settings, conf_file)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error


def _checked(settings: Sequence[str], conf_file: str | None) -> Configuration:
    configuration = Configuration()
    if conf_file is not None:
        for key, value in settings_of_file(conf_file).items():
            configuration.set_string(key, value)
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"{setting!r} is not KEY=VALUE", param_hint="--conf")
        configuration.set_string(key.strip(), value.strip())
    check_settings(configuration)
    return configuration


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
