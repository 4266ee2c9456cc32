"""What the manifests say of pods holds for the pods that KubeRay makes of them."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tidegate.console.settings import settings_of_file

from .manifests import (
    K8S,
    OVERLAYS,
    Document,
    built,
    composed,
    named,
    overlay,
    pods_of,
    ray_spec,
    templates_of,
)

Labels = dict[str, str]
PROMETHEUS = {"app.kubernetes.io/name": "prometheus"}
OPERATOR = {"app.kubernetes.io/name": "kuberay-operator"}
STRANGER = {"app.kubernetes.io/name": "other"}
CONSOLE_CLIENT = {"tidegate-console-client": "true"}
OURS = {"head", "tasks", "submitter"}


def ray_labels(node_type: str, group: str, cluster: str = "tidegate-x7k2p") -> Labels:
    """The labels that KubeRay gives to a pod: `labelPod` in ray-operator/controllers/ray/common/pod.go."""
    return {
        "ray.io/is-ray-node": "yes",
        "ray.io/cluster": cluster,
        "ray.io/node-type": node_type,
        "ray.io/group": group,
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }


def pods(documents: list[Document]) -> dict[str, Labels]:
    """The labels of every pod that the documents lead to, by head, group of workers, submitter or name."""
    spec = ray_spec(documents)
    templates = templates_of(documents)
    found = {}
    if len(templates) > 1 + len(spec["workerGroupSpecs"]):
        found["submitter"] = templates[0]["metadata"]["labels"]
    found["head"] = _of_ray(spec["headGroupSpec"]["template"], ray_labels("head", "headgroup"))
    for group in spec["workerGroupSpecs"]:
        name = group["groupName"]
        found[name] = _of_ray(group["template"], ray_labels("worker", name))
    for name, deployment in named(documents, "Deployment").items():
        found[name] = deployment["spec"]["template"]["metadata"]["labels"]
    return found


def _of_ray(template: Document, generated: Labels) -> Labels:
    fixed = ("ray.io/node-type", "ray.io/group", "ray.io/cluster")
    own = {key: value for key, value in template["metadata"]["labels"].items() if key not in fixed}
    return {**generated, **own}


def selects(selector: dict[str, Any], labels: Labels) -> bool:
    """Whether a label selector of Kubernetes matches."""
    for each in selector.get("matchExpressions", []):
        if (labels.get(each["key"]) in each["values"]) is not (each["operator"] == "In"):
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()


def selected(selector: dict[str, Any], documents: list[Document]) -> set[str]:
    return {name for name, labels in pods(documents).items() if selects(selector, labels)}


def admitted(documents: list[Document], pod: str, port: int, sender: Labels) -> bool:
    """Whether the network policies let a pod of another namespace, or one of ours, reach a port of a pod."""
    labels = pods(documents)[pod]
    policies = [
        policy["spec"]
        for policy in named(documents, "NetworkPolicy").values()
        if selects(policy["spec"]["podSelector"], labels)
    ]
    assert policies, f"everything reaches {pod}"
    rules = itertools.chain.from_iterable(policy["ingress"] for policy in policies)
    return any(
        selects(peer["podSelector"], sender) and ("namespaceSelector" in peer or sender in _own(documents))
        for rule in rules
        for peer in rule["from"]
        if "ports" not in rule or {"port": port, "protocol": "TCP"} in rule["ports"]
    )


def _own(documents: list[Document]) -> list[Labels]:
    return list(pods(documents).values())


@pytest.fixture(scope="module", params=[*OVERLAYS, "job+console", "cluster+console"])
def documents(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Document]:
    """Each overlay, and both bases with the console."""
    base, _, component = request.param.partition("+")
    return composed(tmp_path_factory.mktemp(base), base, component) if component else overlay(base)


def test_budgets_cover_head_and_workers(documents: list[Document]) -> None:
    budgets = named(documents, "PodDisruptionBudget")
    assert selected(budgets["tidegate-head"]["spec"]["selector"], documents) == {"head"}
    assert selected(budgets["tidegate-workers"]["spec"]["selector"], documents) == {"tasks"}
    workers = sum(group["replicas"] for group in ray_spec(documents)["workerGroupSpecs"])
    assert budgets["tidegate-workers"]["spec"]["minAvailable"] == workers - 1


def test_workers_of_one_cluster_are_spread_over_nodes(documents: list[Document]) -> None:
    for group in ray_spec(documents)["workerGroupSpecs"]:
        labels = pods(documents)[group["groupName"]]
        (spread,) = group["template"]["spec"]["topologySpreadConstraints"]
        assert selected(spread["labelSelector"], documents) == {group["groupName"]}
        assert spread["topologyKey"] == "kubernetes.io/hostname"
        # Keys that a pod lacks are ignored, and then workers of other clusters count.
        assert set(spread["matchLabelKeys"]) == {"ray.io/cluster"} <= set(labels)


def test_services_and_monitors_find_pods_with_their_ports(documents: list[Document]) -> None:
    ports = dict(_ports(documents))
    for name, service in named(documents, "Service").items():
        found = selected({"matchLabels": service["spec"]["selector"]}, documents)
        assert found == ({"head"} if name == "tidegate-console" else {name})
        for port in service["spec"]["ports"]:
            target = port.get("targetPort", port["port"])
            assert all({target} & ({*ports[pod]} | {*ports[pod].values()}) for pod in found)
    for name, monitor in named(documents, "PodMonitor").items():
        found = selected(monitor["spec"]["selector"], documents)
        assert found == ({"head", "tasks"} if name == "tidegate" else {"tidegate-otel-collector"})
        assert all(
            each["port"] in ports[pod] for each in monitor["spec"]["podMetricsEndpoints"] for pod in found
        )


def _ports(documents: list[Document]) -> Iterator[tuple[str, dict[str, int]]]:
    spec = ray_spec(documents)
    templates = {"head": spec["headGroupSpec"]["template"]}
    templates |= {group["groupName"]: group["template"] for group in spec["workerGroupSpecs"]}
    templates |= {name: one["spec"]["template"] for name, one in named(documents, "Deployment").items()}
    for name, template in templates.items():
        listed = [port for each in template["spec"]["containers"] for port in each.get("ports", [])]
        yield name, {port["name"]: port["containerPort"] for port in listed}


def test_deployments_select_their_own_pods(documents: list[Document]) -> None:
    for name, deployment in named(documents, "Deployment").items():
        assert selected(deployment["spec"]["selector"], documents) == {name}


def test_network_policies_admit_who_has_to_come_in_and_no_other(documents: list[Document]) -> None:
    every = pods(documents)
    for pod, sender in itertools.product(OURS & set(every), every.values()):
        assert admitted(documents, pod, 6379, sender)
    assert admitted(documents, "head", 8265, OPERATOR)
    assert not admitted(documents, "head", 6379, OPERATOR)
    for pod in ("head", "tasks"):
        assert admitted(documents, pod, 8080, PROMETHEUS)
        assert not admitted(documents, pod, 8265, PROMETHEUS)
    has_console = "tidegate-console" in named(documents, "Service")
    assert admitted(documents, "head", 8081, CONSOLE_CLIENT) is has_console
    assert not admitted(documents, "head", 8265, CONSOLE_CLIENT)
    assert not admitted(documents, "tasks", 8081, CONSOLE_CLIENT)
    for pod, port in itertools.product(every, (6379, 8080, 8081, 8265, 8889, 10001)):
        assert not admitted(documents, pod, port, STRANGER)
    if "tidegate-otel-collector" in every:
        assert admitted(documents, "tidegate-otel-collector", 4318, every["tasks"])
        assert admitted(documents, "tidegate-otel-collector", 8889, PROMETHEUS)


def test_a_selector_that_matches_no_pod_would_be_noticed() -> None:
    documents = overlay("cluster")
    assert selected({"matchLabels": {"ray.io/node-type": "workers"}}, documents) == set()


def test_everything_that_is_written_has_a_volume(documents: list[Document]) -> None:
    """Root file systems are read-only; KubeRay adds /dev/shm, and shares /tmp/ray with the autoscaler."""
    for pod in pods_of(documents):
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for container in pod["containers"]:
            mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
            needed = {"/tmp"} if container["name"] == "ray-job-submitter" else {"/tmp", "/tmp/ray"}
            if container["name"] in ("ray-head", "ray-worker"):
                needed.add("/state")
            for path in needed:
                assert "emptyDir" in volumes[mounts[path]["name"]]
                assert not mounts[path].get("readOnly")
            if "/tmp/ray" in needed:
                # The name that KubeRay looks for.
                assert mounts["/tmp/ray"]["name"] == "ray-logs"


@pytest.mark.parametrize("name", [name for name in OVERLAYS if name.startswith("job")])
def test_local_state_is_on_its_volume(name: str) -> None:
    settings = settings_of_file(str(K8S / "overlays" / name / "config.yaml"))
    assert settings["tidegate.local-dir"] == "/state"


@pytest.mark.parametrize("base", ["job", "cluster"])
def test_the_console_runs_next_to_the_head_and_requires_a_token(base: str, tmp_path: Path) -> None:
    documents = composed(tmp_path, base, "console")
    head = ray_spec(documents)["headGroupSpec"]["template"]["spec"]
    ray, console = head["containers"]
    assert ray["name"] == "ray-head", "KubeRay takes the first container for Ray's"
    assert console["image"] == ray["image"]
    assert head["shareProcessNamespace"] is True
    (token,) = console["env"]
    assert token["name"] == "TIDEGATE_CONSOLE_TOKEN"
    assert token["valueFrom"]["secretKeyRef"] == {"name": "tidegate-console", "key": "token"}
    assert "preStop" in ray["lifecycle"] or base == "cluster"
    assert "/run/tidegate/ray-token" in ray["lifecycle"]["postStart"]["exec"]["command"][-1]
    assert {"name": "ray-token", "mountPath": "/run/tidegate"} in ray["volumeMounts"]
    assert {"name": "ray-token", "mountPath": "/run/tidegate", "readOnly": True} in console["volumeMounts"]
    assert "--host 0.0.0.0 --port 8081" in console["command"][-1]
    assert "[console," in (K8S / "Dockerfile").read_text("utf-8")


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_digest_pins_the_image_of_every_pod_of_ray(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "k8s"
    shutil.copytree(K8S, copy)
    file = copy / "overlays" / name / "kustomization.yaml"
    content = yaml.safe_load(file.read_text("utf-8"))
    digest = f"sha256:{'ab' * 32}"
    (image,) = content["images"]
    del image["newTag"]
    file.write_text(yaml.safe_dump({**content, "images": [{**image, "digest": digest}]}), "utf-8")
    pods = pods_of(built(file.parent))
    assert {each["image"] for pod in pods for each in pod["containers"]} == {f"{image['newName']}@{digest}"}
