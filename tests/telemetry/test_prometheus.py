"""The page that Prometheus reads, read with the parser of its own client library."""

from __future__ import annotations

import logging
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tidegate.telemetry.metric_families import MetricFamilies, MetricFamily
from tidegate.telemetry.metric_settings import PrometheusSettings
from tidegate.telemetry.prometheus import PrometheusEndpoint, open_prometheus_endpoint


def families() -> list[MetricFamily]:
    found = MetricFamilies()
    found.add(
        ("jobmanager", "job", "uptime"), 'With "quotes"\nand lines \\', {"job_name": 'a "job"\n\\é'}, 12
    )
    found.add_of_user(("operator", "half done"), {"job_name": "b"}, {"key": ""}, 0.5)
    return found.all()


@contextmanager
def endpoint(settings: PrometheusSettings) -> Iterator[PrometheusEndpoint]:
    opened = open_prometheus_endpoint(settings, families)
    assert opened is not None
    try:
        yield opened
    finally:
        opened.close()


def test_names_and_labels_of_all_kinds_come_through_as_they_are() -> None:
    with (
        endpoint(PrometheusSettings((0,))) as page,
        urllib.request.urlopen(page.url, timeout=120) as answer,
    ):
        assert answer.headers["Content-Type"].startswith("text/plain")
        found = list(text_string_to_metric_families(answer.read().decode()))
    assert page.url.startswith("http://127.0.0.1:")
    assert [(family.name, family.type, family.documentation) for family in found] == [
        ("tidegate_jobmanager_job_uptime", "gauge", 'With "quotes"\nand lines \\'),
        ("tidegate_operator_half_done", "gauge", "A metric of a user's function."),
    ]
    samples = [(sample.labels, sample.value) for family in found for sample in family.samples]
    assert samples == [({"job_name": 'a "job"\n\\é'}, 12), ({"job_name": "b", "key": ""}, 0.5)]


def test_the_first_free_port_of_a_range_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    with endpoint(PrometheusSettings((0,))) as first:
        taken = int(first.url.rpartition(":")[2].removesuffix("/metrics"))
        with endpoint(PrometheusSettings((taken, 0))) as second:
            assert second.url != first.url
    assert not caplog.messages


def test_a_port_that_is_taken_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, caplog.at_level(logging.WARNING, "tidegate"):
        port = other.getsockname()[1]
        assert open_prometheus_endpoint(PrometheusSettings((port,)), families) is None
    (message,) = caplog.messages
    assert f"no port of 127.0.0.1, {port}, can be listened on" in message
    assert "metrics.reporter.prom.port" in message


def test_a_host_that_is_not_ours_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tidegate"):
        assert open_prometheus_endpoint(PrometheusSettings((0,), "192.0.2.1"), families) is None
    assert len(caplog.messages) == 1


def test_a_closed_page_gives_its_port_back() -> None:
    with endpoint(PrometheusSettings((0,))) as page:
        port = int(page.url.rpartition(":")[2].removesuffix("/metrics"))
    with endpoint(PrometheusSettings((port,))) as again:
        assert again.url == page.url
