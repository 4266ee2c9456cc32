"""What Kustomize builds from `k8s/`, and the pods in it."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
K8S = ROOT / "k8s"
OVERLAYS = sorted(path.name for path in (K8S / "overlays").iterdir())

Document = dict[str, Any]


def built(directory: Path) -> list[Document]:
    """The documents that Kustomize makes of a directory."""
    command = ["kubectl", "kustomize", str(directory)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        pytest.fail("kubectl is needed to build the overlays: https://kubernetes.io/docs/tasks/tools/")
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@functools.cache
def overlay(name: str) -> list[Document]:
    return built(K8S / "overlays" / name)


def composed(directory: Path, base: str, component: str) -> list[Document]:
    """A base with one component, which need not be in any overlay."""
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(K8S / base, directory)],
        "components": [os.path.relpath(K8S / "components" / component, directory)],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(content), "utf-8")
    return built(directory)


def ray_spec(documents: list[Document]) -> Document:
    """The Ray cluster of the documents, be it a job's or one that stays."""
    (document,) = (one for one in documents if one["apiVersion"] == "ray.io/v1")
    spec: Document = document["spec"]
    return spec if document["kind"] == "RayCluster" else spec["rayClusterSpec"]


def templates_of(documents: list[Document]) -> list[Document]:
    """Pod templates of the submitter, the head and each group of workers."""
    (document,) = (one for one in documents if one["apiVersion"] == "ray.io/v1")
    cluster = ray_spec(documents)
    submitter = [document["spec"]["submitterPodTemplate"]] if document["kind"] == "RayJob" else []
    workers = [group["template"] for group in cluster["workerGroupSpecs"]]
    return [*submitter, cluster["headGroupSpec"]["template"], *workers]


def pods_of(documents: list[Document]) -> list[Document]:
    return [template["spec"] for template in templates_of(documents)]


def all_pods(documents: list[Document]) -> list[Document]:
    """Pod specs of Ray and of what stands beside it."""
    deployed = [one["spec"]["template"]["spec"] for one in documents if one["kind"] == "Deployment"]
    return pods_of(documents) + deployed


def named(documents: list[Document], kind: str) -> dict[str, Document]:
    return {one["metadata"]["name"]: one for one in documents if one["kind"] == kind}
