"""The way to `confluent_kafka`, its properties, and its errors as one clear error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...common.errors import ConfigurationError, TidegateError

_REQUEST_TIMEOUT_S = 10.0

_OWN = {
    "client.id.prefix": "",
    "commit.offsets.on.checkpoint": "true",
    "partition.discovery.interval.ms": "300000",
    "retry.timeout.ms": "60000",
}
"""Properties that this connector understands itself, with their defaults; all others are librdkafka's."""

_JAVA_ONLY = {"key.deserializer", "value.deserializer", "key.serializer", "value.serializer"}

_ADVICE = {
    "_ALL_BROKERS_DOWN": "no broker answers; check bootstrap.servers and that the brokers run",
    "_TRANSPORT": "no broker answers; check bootstrap.servers and that the brokers run",
    "_RESOLVE": "a host name of bootstrap.servers is not known; correct it",
    "_TIMED_OUT": "no broker answers in time; check bootstrap.servers and that the brokers run",
    "_AUTHENTICATION": "the broker refuses the credentials; correct sasl.username and sasl.password",
    "SASL_AUTHENTICATION_FAILED": "the broker refuses the credentials; correct sasl.username and password",
    "_SSL": "the encrypted connection failed; check security.protocol and the ssl.* properties",
    "UNKNOWN_TOPIC_OR_PART": "create the topic, or correct its name",
    "_UNKNOWN_TOPIC": "create the topic, or correct its name",
    "_UNKNOWN_PARTITION": "the partition is gone; was the topic deleted and created again?",
    "TOPIC_AUTHORIZATION_FAILED": "the user may not use this topic; grant the right",
    "GROUP_AUTHORIZATION_FAILED": "the user may not use this group.id; grant the right",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "the user may not use these transactional ids; grant the right",
}

_FINAL = {
    "_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC",
    "_UNKNOWN_PARTITION", "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "UNSUPPORTED_VERSION",
    "_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "INVALID_TRANSACTION_TIMEOUT", "TOPIC_EXCEPTION",
}  # fmt: skip
"""Errors that waiting does not mend."""


_COMMON = {
    "bootstrap", "broker", "client", "debug", "https", "metadata", "reconnect", "sasl", "security", "socket",
    "ssl",
}  # fmt: skip
"""How the names of properties begin that concern every client."""


class KafkaConnectorError(TidegateError):
    """Kafka refused something, or could not be reached for too long. The message says what to do."""


def confluent() -> Any:
    """The module `confluent_kafka`.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        import confluent_kafka
    except ImportError as error:
        raise ConfigurationError(
            "the Kafka connector needs the package confluent-kafka; install tidegate[kafka]"
        ) from error
    return confluent_kafka


def kafka_error(where: str, action: str, error: Any) -> KafkaConnectorError:
    """What to raise when Kafka said no.

    Args:
        where: The operator and subtask, or a part of the program.
        action: What was being done, as `reading topic-0`.
        error: A `KafkaError`, or the `KafkaException` around one.
    """
    inner = error.args[0] if isinstance(error, Exception) and error.args else error
    advice = _ADVICE.get(name_of(error))
    text = inner.str() if hasattr(inner, "str") else str(inner)
    hint = f"; {advice}" if advice is not None else ""
    return KafkaConnectorError(f"{where}: {action} failed: {text} ({name_of(error)}){hint}")


def name_of(error: Any) -> str:
    """The name of a `KafkaError`, or of the one in a `KafkaException`."""
    inner = error.args[0] if isinstance(error, Exception) and error.args else error
    return str(inner.name()) if hasattr(inner, "name") else type(error).__name__


def may_pass(error: Any) -> bool:
    """Whether trying again later may help."""
    # A broker that goes away during the handshake is not one that refuses.
    return name_of(error) not in _FINAL or "transport failure" in str(error)


class KafkaProperties:
    """Properties of one source or sink: librdkafka's, and a few of this connector.

    Args:
        properties: By name; values are taken as strings.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        for name in _JAVA_ONLY & properties.keys():
            raise ConfigurationError(
                f"the property {name!r} names a Java class; pass a schema to the builder instead"
            )
        self._values = {name: str(value) for name, value in properties.items()}

    def own(self, name: str) -> str:
        """A property of this connector."""
        return self._values.get(name, _OWN[name])

    def own_ms(self, name: str) -> int:
        """A property of this connector that is a number of milliseconds."""
        try:
            return int(self.own(name))
        except ValueError as error:
            raise ConfigurationError(
                f"the property {name!r} is {self.own(name)!r}; it must be a number of milliseconds"
            ) from error

    @property
    def retry_timeout_s(self) -> float:
        """How long to go on trying when no broker answers, in seconds."""
        return self.own_ms("retry.timeout.ms") / 1_000

    @property
    def request_timeout_s(self) -> float:
        """How long one question to a broker may take, in seconds."""
        return max(0.1, min(_REQUEST_TIMEOUT_S, self.retry_timeout_s))

    def own_flag(self, name: str) -> bool:
        """A property of this connector that is true or false."""
        value = self.own(name).lower()
        if value not in ("true", "false"):
            raise ConfigurationError(f"the property {name!r} is {value!r}; it must be true or false")
        return value == "true"

    def get(self, name: str, default: str | None = None) -> str | None:
        """A property as the user set it."""
        return self._values.get(name, default)

    def with_value(self, name: str, value: str) -> KafkaProperties:
        """The same with one changed."""
        return KafkaProperties({**self._values, name: value})

    def for_client(
        self, purpose: str, defaults: Mapping[str, Any], fixed: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The configuration of one client.

        Args:
            purpose: Ends the client's id.
            defaults: Apply where the user set nothing.
            fixed: Apply whatever the user set.
        """
        prefix = self.own("client.id.prefix") or "tidegate"
        theirs = {name: value for name, value in self._values.items() if name not in _OWN}
        return {"client.id": f"{prefix}-{purpose}", **defaults, **theirs, **fixed}

    def for_admin(self, purpose: str) -> dict[str, Any]:
        """The configuration of a client that only asks: without what concerns consumers or producers."""
        every = self.for_client(purpose, {}, {})
        return {name: value for name, value in every.items() if name.split(".")[0] in _COMMON}

    def check(self, client: str, config: Mapping[str, Any]) -> None:
        """Raise `ConfigurationError` if librdkafka refuses a configuration.

        Args:
            client: `Consumer` or `Producer`.
            config: As `for_client` returned it.
        """
        kafka = confluent()
        try:
            made = getattr(kafka, client)(dict(config))
        except (kafka.KafkaException, TypeError, ValueError) as error:
            text = error.args[0].str() if hasattr(error.args[0], "str") else str(error)
            raise ConfigurationError(
                f"Kafka does not take these properties: {text}; names and values are those of librdkafka"
            ) from error
        if client == "Consumer":
            made.close()
