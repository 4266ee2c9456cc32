"""Where metrics are to be seen: a page for Prometheus, an OTLP collector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..common.errors import ConfigurationError
from .settings import OtlpSettings

_LARGEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """Where Prometheus finds the metrics of one job.

    Attributes:
        ports: Tried in this order until one is free; 0 takes any that is.
        host: Name or address to listen on.
    """

    ports: tuple[int, ...]
    host: str = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class OtlpMetricSettings:
    """How metrics get to an OTLP collector.

    Attributes:
        interval_ms: How often they are sent.
    """

    collector: OtlpSettings
    interval_ms: int = 60_000

    @staticmethod
    def from_environment(environ: Mapping[str, str]) -> OtlpMetricSettings | None:
        """Settings from the `OTEL_…` variables, or None where no endpoint is set.

        Raises:
            ConfigurationError: `OTEL_METRIC_EXPORT_INTERVAL` is no number of milliseconds.
        """
        collector = OtlpSettings.from_environment(environ, "metrics")
        if collector is None:
            return None
        text = environ.get("OTEL_METRIC_EXPORT_INTERVAL") or "60000"
        if not text.isdigit() or int(text) < 1:
            raise ConfigurationError(
                f"OTEL_METRIC_EXPORT_INTERVAL is {text!r}; give a number of milliseconds, 1 or more"
            )
        return OtlpMetricSettings(collector, int(text))


def parse_ports(text: str, key: str) -> tuple[int, ...]:
    """The ports of a list of ports and ranges, as Flink writes them: `9249`, `9250-9260`, `9249,9300-9310`.

    Args:
        key: Of the setting, for errors.

    Raises:
        ConfigurationError: It is no such list.
    """
    ports: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not first.isdigit() or not last.isdigit():
            raise _no_ports(text, key)
        start, end = int(first), int(last)
        if not start <= end <= _LARGEST_PORT:
            raise _no_ports(text, key)
        ports += range(start, end + 1)
    return tuple(ports)


def _no_ports(text: str, key: str) -> ConfigurationError:
    return ConfigurationError(
        f"{key} is {text!r}; give a port, a range or several of them up to {_LARGEST_PORT}, such as "
        f"9249 or 9250-9260; 0 takes any port that is free"
    )
