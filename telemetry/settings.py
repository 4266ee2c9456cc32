"""Where an OTLP collector listens, as OpenTelemetry's environment variables say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DEFAULT_PROTOCOL = "http/protobuf"


@dataclass(frozen=True, slots=True)
class OtlpSettings:
    """How to reach an OTLP collector; read in the driver, shipped to the process that exports.

    Attributes:
        endpoint: URL for a signal: with its path for `http/protobuf`, host and port for `grpc`.
        protocol: `http/protobuf` or `grpc`.
        headers: sent with every request. They may hold credentials, so `repr` leaves them out.
    """

    endpoint: str
    protocol: str = DEFAULT_PROTOCOL
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @staticmethod
    def from_environment(environ: Mapping[str, str], signal: str = "traces") -> OtlpSettings | None:
        """Settings from the `OTEL_…` variables, or None where no endpoint is set.

        The variables for a signal win over the general ones, and the path `v1/…` is added to a general HTTP
        endpoint only, as the OpenTelemetry specification of OTLP exporters says.

        Args:
            signal: `traces` or `metrics`.
        """
        if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
            return None

        def of_signal(name: str) -> str:
            return environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}", "")

        def general(name: str) -> str:
            return environ.get(f"OTEL_EXPORTER_OTLP_{name}", "")

        protocol = of_signal("PROTOCOL") or general("PROTOCOL") or DEFAULT_PROTOCOL
        endpoint = of_signal("ENDPOINT")
        if not endpoint:
            endpoint = general("ENDPOINT")
            if endpoint and protocol == DEFAULT_PROTOCOL:
                endpoint = f"{endpoint.rstrip('/')}/v1/{signal}"
        if not endpoint:
            return None
        return OtlpSettings(endpoint, protocol, _parse_headers(of_signal("HEADERS") or general("HEADERS")))


def _parse_headers(text: str) -> dict[str, str]:
    """Headers of the form `name=value,name=value`, values percent-encoded."""
    from urllib.parse import unquote

    pairs = (item.partition("=") for item in text.split(",") if "=" in item)
    return {name.strip().lower(): unquote(value.strip()) for name, _, value in pairs}
