"""Names and labels of metrics, whatever users call theirs."""

from __future__ import annotations

import pytest
from tidegate.common.errors import ConfigurationError
from tidegate.telemetry.metric_families import MetricFamilies
from tidegate.telemetry.metric_settings import OtlpMetricSettings, parse_ports
from tidegate.telemetry.settings import OtlpSettings


def test_a_family_has_the_name_that_prometheus_allows_and_that_of_opentelemetry() -> None:
    families = MetricFamilies()
    families.add(("jobmanager", "job", "numRestarts"), "Restarts.", {"job_id": "1"}, 3)
    families.add(("jobmanager", "job", "numRestarts"), "Restarts.", {"job_id": "2"}, 4)
    families.add_of_user(("operator", "größe in €", "a.b"), {}, {}, 1)
    restarts, odd = families.all()
    assert restarts.prometheus_name == "tidegate_jobmanager_job_numRestarts"
    assert restarts.dotted_name == "tidegate.jobmanager.job.numRestarts"
    assert restarts.samples == [({"job_id": "1"}, 3), ({"job_id": "2"}, 4)]
    assert odd.prometheus_name == "tidegate_operator_gr__e_in___a_b"
    assert odd.dotted_name == "tidegate.operator.gr__e_in__.a_b"


def test_meters_and_distributions_are_a_family_for_each_of_their_numbers() -> None:
    families = MetricFamilies()
    families.add_of_user(("op", "calls"), {}, {}, {"count": 10, "rate": 2.5})
    families.add_of_user(("op", "sizes"), {}, {}, {"count": 2, "sum": 9, "min": 4, "max": 5})
    assert {family.prometheus_name: family.samples[0][1] for family in families.all()} == {
        "tidegate_op_calls": 2.5,
        "tidegate_op_calls_count": 10,
        "tidegate_op_sizes_count": 2,
        "tidegate_op_sizes_sum": 9,
        "tidegate_op_sizes_min": 4,
        "tidegate_op_sizes_max": 5,
    }


def test_labels_of_users_take_no_name_that_is_taken_or_not_allowed() -> None:
    families = MetricFamilies()
    chosen = {"topic": "orders", "job_id": "mine", "2nd-key": "b", "__name__": "c", "": "d"}
    families.add_of_user(("op", "seen"), {"job_id": "1"}, chosen, 1)
    ((labels, _),) = families.all()[0].samples
    assert labels == {
        "job_id": "1",
        "topic": "orders",
        "exported_job_id": "mine",
        "key_2nd_key": "b",
        "key_name__": "c",
        "key_": "d",
    }


def test_of_two_metrics_with_one_name_and_the_same_labels_the_first_stays() -> None:
    families = MetricFamilies()
    families.add_of_user(("op", "a.b"), {"subtask_index": "0"}, {}, 1)
    families.add_of_user(("op", "a_b"), {"subtask_index": "0"}, {}, 2)
    families.add_of_user(("op", "a", "b"), {"subtask_index": "1"}, {}, 3)
    (family,) = families.all()
    assert family.samples == [({"subtask_index": "0"}, 1), ({"subtask_index": "1"}, 3)]
    assert families.doubled == ["op_a_b"]


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("9249", (9249,)),
        ("9250-9252", (9250, 9251, 9252)),
        ("0", (0,)),
        ("9249, 9300-9301", (9249, 9300, 9301)),
    ],
)
def test_ports_are_written_as_flink_writes_them(text: str, ports: tuple[int, ...]) -> None:
    assert parse_ports(text, "port") == ports


@pytest.mark.parametrize("text", ["", "http", "9250-9249", "70000", "-5", "1-", "9249,,9250"])
def test_other_ports_are_an_error_that_names_the_setting(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"metrics\.reporter\.prom\.port is .*9250-9260"):
        parse_ports(text, "metrics.reporter.prom.port")


def test_metrics_go_where_the_environment_says_and_as_often() -> None:
    assert OtlpMetricSettings.from_environment({}) is None
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/"}
    settings = OtlpMetricSettings.from_environment(environ)
    assert settings == OtlpMetricSettings(OtlpSettings("http://collector:4318/v1/metrics"), 60_000)
    environ |= {
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://other:4317",
        "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc",
        "OTEL_METRIC_EXPORT_INTERVAL": "5000",
    }
    settings = OtlpMetricSettings.from_environment(environ)
    assert settings == OtlpMetricSettings(OtlpSettings("http://other:4317", "grpc"), 5_000)
    environ["OTEL_METRIC_EXPORT_INTERVAL"] = "often"
    with pytest.raises(ConfigurationError, match="OTEL_METRIC_EXPORT_INTERVAL is 'often'"):
        OtlpMetricSettings.from_environment(environ)
