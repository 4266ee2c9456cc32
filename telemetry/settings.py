"""Where an OTLP collector listens, as OpenTelemetry's environment variables say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DEFAULT_PROTOCOL = "http/protobuf"


@dataclass(frozen=True, slots=True)
class OtlpSettings:
    """How to reach an OTLP collector; read in the driver, shipped to the process that exports.

    Attributes:
        endpoint: URL for traces: with its path for `http/protobuf`, host and port for `grpc`.
        protocol: `http/protobuf` or `grpc`.
        headers: sent with every request. They may hold credentials, so `repr` leaves them out.
    """

    endpoint: str
    protocol: str = DEFAULT_PROTOCOL
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @staticmethod
    def from_environment(environ: Mapping[str, str]) -> OtlpSettings | None:
        """Settings from the `OTEL_…` variables, or None where no endpoint is set.

        The variables for traces win over the general ones, and the path `v1/traces` is added to a
        general HTTP endpoint only, as the OpenTelemetry specification of OTLP exporters says.
        """
        if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
            return None
        protocol = (
            environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
            or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
            or DEFAULT_PROTOCOL
        )
        endpoint = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
        if not endpoint:
            endpoint = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
            if endpoint and protocol == DEFAULT_PROTOCOL:
                endpoint = endpoint.rstrip("/") + "/v1/traces"
        if not endpoint:
            return None
        headers = environ.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or environ.get(
            "OTEL_EXPORTER_OTLP_HEADERS", ""
        )
        return OtlpSettings(endpoint, protocol, _parse_headers(headers))


def _parse_headers(text: str) -> dict[str, str]:
    """Headers of the form `name=value,name=value`, values percent-encoded."""
    from urllib.parse import unquote

    pairs = (item.partition("=") for item in text.split(",") if "=" in item)
    return {name.strip().lower(): unquote(value.strip()) for name, _, value in pairs}
