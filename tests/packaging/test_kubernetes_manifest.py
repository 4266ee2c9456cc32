"""What the RayJob must keep true whoever edits it; its field names are KubeRay's business."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    text = (ROOT / "k8s" / "rayjob.yaml").read_text("utf-8")
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


@pytest.fixture(scope="module")
def cluster(documents: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = documents["RayJob"]["spec"]["rayClusterSpec"]
    return spec


@pytest.fixture(scope="module")
def pods(documents: dict[str, Any], cluster: dict[str, Any]) -> list[dict[str, Any]]:
    """Pod specs of the submitter, the head and each group of workers."""
    templates = [documents["RayJob"]["spec"]["submitterPodTemplate"]]
    templates += [cluster["headGroupSpec"]["template"]]
    templates += [group["template"] for group in cluster["workerGroupSpecs"]]
    return [template["spec"] for template in templates]


def test_driver_head_and_workers_run_one_image(pods: list[dict[str, Any]]) -> None:
    assert len(pods) == 3
    assert len({container["image"] for pod in pods for container in pod["containers"]}) == 1


def test_every_pod_runs_without_root_capabilities_or_a_kubernetes_token(
    documents: dict[str, Any], pods: list[dict[str, Any]]
) -> None:
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["automountServiceAccountToken"] is False
        assert pod["serviceAccountName"] == documents["ServiceAccount"]["metadata"]["name"]
        for container in pod["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]


def test_the_cluster_asks_for_a_token(cluster: dict[str, Any]) -> None:
    assert cluster["authOptions"]["mode"] == "token"


def test_the_head_opens_the_ports_of_ray(cluster: dict[str, Any]) -> None:
    (head,) = cluster["headGroupSpec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in head["ports"]}
    assert ports == {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "metrics": 8080}


def test_head_and_workers_share_one_checkpoint_volume_for_many_writers(
    documents: dict[str, Any], pods: list[dict[str, Any]]
) -> None:
    claim = documents["PersistentVolumeClaim"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for pod in pods[1:]:
        (volume,) = pod["volumes"]
        (container,) = pod["containers"]
        assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/checkpoints"}]


def test_memory_is_limited_to_what_is_requested(pods: list[dict[str, Any]]) -> None:
    for pod in pods[1:]:
        (container,) = pod["containers"]
        resources = container["resources"]
        assert resources["limits"]["memory"] == resources["requests"]["memory"]


def test_a_failed_driver_is_not_submitted_again(documents: dict[str, Any]) -> None:
    assert documents["RayJob"]["spec"]["backoffLimit"] == 0


def test_the_manifest_runs_a_ray_that_the_wheel_accepts(cluster: dict[str, Any]) -> None:
    assert cluster["rayVersion"] == version("ray")


def test_the_image_runs_as_the_user_of_the_manifest(pods: list[dict[str, Any]]) -> None:
    dockerfile = (ROOT / "k8s" / "Dockerfile").read_text("utf-8")
    (user,) = re.findall(r"^USER (\d+):(\d+)$", dockerfile, re.MULTILINE)
    for pod in pods:
        context = pod["securityContext"]
        assert (context["runAsUser"], context["runAsGroup"]) == (int(user[0]), int(user[1]))
