"""The dashboard for Grafana asks for metrics and labels that a job really has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml
from tidegate.coordinator.monitoring.job_metric_families import JobMetricFamilies
from tidegate.protocol.task_metrics import ProcessMetrics, TaskMetrics

from tests.coordinator.fakes import TOTALS, FakeCluster

TELEMETRY = Path(__file__).parents[2] / "k8s" / "components" / "telemetry"
DASHBOARD: dict[str, Any] = json.loads((TELEMETRY / "grafana-dashboard.json").read_text("utf-8"))


def exposed() -> dict[str, set[str]]:
    """The labels of each metric of a job that has taken a checkpoint."""
    cluster = FakeCluster().run()
    cluster.pass_ms(100)
    cluster.acknowledge()
    said = TaskMetrics(watermark_ms=100, state_bytes=1)
    taken = ProcessMetrics(cluster.attempt, "host", 1, {TOTALS[0]: said})
    cluster.coordinator.metrics.update(taken, cluster.time_ms)
    families = JobMetricFamilies(cluster.coordinator).take()
    return {family.prometheus_name: set(family.samples[0][0]) for family in families}


def queries() -> list[str]:
    asked = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    variables = [one["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
    return [*asked, *variables]


def test_every_query_is_for_a_metric_that_there_is_and_for_its_labels() -> None:
    labels = exposed()
    for query in queries():
        names = re.findall(r"tidegate_\w+", query)
        assert names, query
        for name in names:
            assert name in labels, query
            used = re.findall(r"(\w+)=~", query)
            used += [one for group in re.findall(r"by \((.*?)\)", query) for one in group.split(", ")]
            used += re.findall(r"label_values\(\w+, (\w+)\)", query)
            assert used, query
            assert set(used) <= labels[name], query


def test_legends_name_labels_that_the_result_has() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            kept = re.findall(r"by \((.*?)\)", target["expr"])
            labels = set(kept[0].split(", ")) if kept else {"job_name"}
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels


def test_panels_lie_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        fields = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not fields & taken, panel["title"]
        taken |= fields
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_collector_shows_metrics_by_their_own_names_at_the_port_that_is_read() -> None:
    (config, deployment, _) = yaml.safe_load_all((TELEMETRY / "collector.yaml").read_text("utf-8"))
    collector = yaml.safe_load(config["data"]["config.yaml"])
    assert "prometheus" in collector["service"]["pipelines"]["metrics"]["exporters"]
    page = collector["exporters"]["prometheus"]
    assert page["add_metric_suffixes"] is False
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    monitors = yaml.safe_load_all((TELEMETRY / "pod-monitor.yaml").read_text("utf-8"))
    (endpoint,) = {one["metadata"]["name"]: one for one in monitors}["tidegate-jobs"]["spec"][
        "podMetricsEndpoints"
    ]
    assert page["endpoint"] == f"0.0.0.0:{ports[endpoint['port']]}"
