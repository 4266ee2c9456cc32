"""What Kustomize makes of `k8s/`: Kubernetes and KubeRay would take it, and what must stay true of it."""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
from tidegate.common.configuration import Configuration
from tidegate.common.options.known_options import check_settings
from tidegate.console.settings import settings_of_file

from .manifests import (
    K8S,
    OVERLAYS,
    Document,
    all_pods,
    composed,
    named,
    overlay,
    pods_of,
    ray_spec,
    templates_of,
)

SCHEMAS = Path(__file__).parent / "kuberay"
COMPONENTS = sorted(path.name for path in (K8S / "components").iterdir())
ONLY_FOR_CLUSTERS = {"redis"}
"""A RayJob's driver ends with its head, whatever Redis keeps."""
FITTING = [
    (base, component)
    for base, component in itertools.product(["job", "cluster"], COMPONENTS)
    if base == "cluster" or component not in ONLY_FOR_CLUSTERS
]
KUBERNETES = "1.33"
"""The newest version that every component's API is checked against."""


@functools.cache
def kuberay(kind: str) -> Any:
    """What knows KubeRay's definition of a kind."""
    schema = json.loads(gzip.decompress((SCHEMAS / f"{kind}.json.gz").read_bytes()))
    return jsonschema.Draft202012Validator(schema)


def validate(document: Document) -> None:
    """Raise where the API server would refuse a document, or drop a field of it."""
    group = document["apiVersion"].partition("/")[0]
    if group == "ray.io":
        kuberay(document["kind"]).validate(document)
        for pod in pods_of([document]):
            kubernetes_validate.validate(as_pod(pod), KUBERNETES, strict=True)
    elif group == "monitoring.coreos.com":
        # The Prometheus operator's definition: https://prometheus-operator.dev/docs/api-reference/api/
        assert set(document["spec"]) <= {
            "selector",
            "podMetricsEndpoints",
            "namespaceSelector",
            "podTargetLabels",
        }
    else:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def as_pod(spec: Document) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}


@pytest.mark.parametrize("name", OVERLAYS)
def test_kubernetes_and_kuberay_accept_every_overlay(name: str) -> None:
    for document in overlay(name):
        validate(document)


@pytest.mark.parametrize(("base", "component"), FITTING)
def test_every_component_fits_its_bases(base: str, component: str, tmp_path: Path) -> None:
    for document in composed(tmp_path, base, component):
        validate(document)


@pytest.mark.parametrize("component", sorted(ONLY_FOR_CLUSTERS))
def test_a_component_without_effect_is_refused(component: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"no resource matches strategic merge patch .*RayCluster"):
        composed(tmp_path, "job", component)


def test_a_misspelt_field_would_be_noticed() -> None:
    document = json.loads(json.dumps(next(one for one in overlay("cluster") if one["kind"] == "RayCluster")))
    document["spec"]["headGroupSpec"]["rayStartParam"] = {}
    with pytest.raises(jsonschema.ValidationError, match="rayStartParam"):
        validate(document)


@pytest.mark.parametrize("name", OVERLAYS)
def test_driver_head_and_workers_run_one_image(name: str) -> None:
    images = {container["image"] for pod in pods_of(overlay(name)) for container in pod["containers"]}
    assert len(images) == 1
    assert re.fullmatch(r"[a-z-]+:[\d.]+", images.pop())


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_pod_keeps_the_strictest_of_kubernetes_standards(name: str) -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/, "Restricted"."""
    (namespace,) = named(overlay(name), "Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for pod in all_pods(overlay(name)):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        for container in pod["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
            assert container["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize("name", OVERLAYS)
def test_only_the_autoscaler_gets_a_kubernetes_token(name: str) -> None:
    spec = ray_spec(overlay(name))
    for pod in all_pods(overlay(name)):
        may_scale = spec.get("enableInTreeAutoscaling") and pod is spec["headGroupSpec"]["template"]["spec"]
        assert pod.get("automountServiceAccountToken", True) is bool(may_scale)


@pytest.mark.parametrize("name", OVERLAYS)
def test_ray_asks_for_a_token_and_runs_what_the_wheel_accepts(name: str) -> None:
    spec = ray_spec(overlay(name))
    assert spec["authOptions"]["mode"] == "token"
    assert spec["rayVersion"] == version("ray")


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_rules_of_network_and_disruption_hold_for_every_pod_of_ray(name: str) -> None:
    documents = overlay(name)
    labels = [template["metadata"]["labels"] for template in templates_of(documents)]
    assert all(one["app.kubernetes.io/part-of"] == "tidegate" for one in labels)
    policy = named(documents, "NetworkPolicy")["tidegate"]["spec"]
    assert policy["podSelector"]["matchLabels"] == {"app.kubernetes.io/part-of": "tidegate"}
    assert all(rule.get("from") for rule in policy["ingress"]), "a rule without a sender lets everybody in"
    budgets = named(documents, "PodDisruptionBudget")
    # Without a scale subresource, as in RayCluster, evictions need a number of pods to keep.
    assert set(budgets) == {"tidegate-head", "tidegate-workers"}
    for budget in budgets.values():
        assert budget["spec"]["minAvailable"] == 1
        assert "maxUnavailable" not in budget["spec"]


@pytest.mark.parametrize("name", OVERLAYS)
def test_everything_that_a_pod_names_exists_or_is_the_users_secret(name: str) -> None:
    documents = overlay(name)
    known = {one["metadata"]["name"] for one in documents} | {"tidegate-s3", "tidegate-redis"}
    for pod in all_pods(documents):
        mounts = {
            mount["name"] for container in pod["containers"] for mount in container.get("volumeMounts", [])
        }
        volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
        assert mounts == set(volumes)
        for volume in volumes.values():
            claim, settings = volume.get("persistentVolumeClaim", {}), volume.get("configMap", {})
            assert {claim.get("claimName"), settings.get("name")} - {None} <= known
        for container in pod["containers"]:
            for source in container.get("envFrom", []):
                assert source["secretRef"]["name"] in known


def test_head_and_workers_share_one_checkpoint_volume_for_many_writers() -> None:
    documents = overlay("job-on-volume")
    claim = named(documents, "PersistentVolumeClaim")["tidegate-checkpoints"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for pod in pods_of(documents)[1:]:
        mounted = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
        assert mounted["checkpoints"] == "/checkpoints"


@pytest.mark.parametrize("name", OVERLAYS)
def test_memory_and_disk_are_limited_to_what_is_requested(name: str) -> None:
    for pod in all_pods(overlay(name)):
        for container in pod["containers"]:
            resources = container["resources"]
            if container["name"] != "ray-job-submitter":
                assert resources["limits"]["memory"] == resources["requests"]["memory"]
            assert resources["limits"]["ephemeral-storage"] == resources["requests"]["ephemeral-storage"]
            assert resources["requests"]["cpu"]


@pytest.mark.parametrize("name", [name for name in OVERLAYS if name.startswith("job")])
def test_a_job_gets_its_settings_once_and_they_mean_something(name: str) -> None:
    documents = overlay(name)
    (job,) = named(documents, "RayJob").values()
    assert "--conf-file /etc/tidegate/config.yaml" in job["spec"]["entrypoint"]
    assert set(named(documents, "ConfigMap")["tidegate-config"]["data"]) == {"config.yaml"}
    configuration = Configuration()
    for key, value in settings_of_file(str(K8S / "overlays" / name / "config.yaml")).items():
        configuration.set_string(key, value)
    check_settings(configuration)
    assert configuration.get_string("execution.checkpointing.dir", "").partition("://")[2]


@pytest.mark.parametrize("name", [name for name in OVERLAYS if name.startswith("job")])
def test_each_start_of_a_job_continues_from_its_latest_checkpoint(name: str) -> None:
    """KubeRay submits the driver again when it resumes the RayJob, and when the head was lost."""
    settings = settings_of_file(str(K8S / "overlays" / name / "config.yaml"))
    directory = settings["execution.checkpointing.dir"]
    assert settings["execution.state-recovery.path"] == f"latest-if-any:{directory}"
    assert settings["execution.state-recovery.claim-mode"] == "CLAIM"
    # Without these two the job would be refused.
    retention = "execution.checkpointing.externalized-checkpoint-retention"
    assert settings[retention] == "RETAIN_ON_CANCELLATION"
    assert settings["tidegate.checkpointing.retain-on-finish"] == "true"
    (job,) = named(overlay(name), "RayJob").values()
    assert job["spec"]["backoffLimit"] == 0, "a job that was cancelled stays so"


@pytest.mark.parametrize("name", [name for name in OVERLAYS if name.startswith("job")])
def test_a_job_that_is_deleted_has_time_for_its_savepoint(name: str) -> None:
    settings = settings_of_file(str(K8S / "overlays" / name / "config.yaml"))
    assert settings["tidegate.on-stop-signal"] == "stop-with-savepoint"
    assert settings["execution.checkpointing.savepoint-dir"].partition("://")[2]
    _, head, *workers = pods_of(overlay(name))
    for pod in (head, *workers):
        stopping = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
        assert "tidegate list" in stopping[-1]
        assert pod["terminationGracePeriodSeconds"] == 60
    environment = {one["name"]: one.get("value") for one in head["containers"][0]["env"]}
    assert int(environment["RAY_JOB_STOP_WAIT_TIME_S"]) < head["terminationGracePeriodSeconds"]


def test_the_image_runs_as_the_user_of_the_manifests() -> None:
    dockerfile = (K8S / "Dockerfile").read_text("utf-8")
    users = set(re.findall(r"^USER (\d+):(\d+)$", dockerfile, re.MULTILINE))
    contexts = [pod["securityContext"] for name in OVERLAYS for pod in pods_of(overlay(name))]
    assert {(str(one["runAsUser"]), str(one["runAsGroup"])) for one in contexts} == users


@pytest.mark.parametrize("wheels", [1, 2])
def test_the_image_is_built_from_one_wheel(wheels: int, tmp_path: Path) -> None:
    dockerfile = (K8S / "Dockerfile").read_text("utf-8")
    (command,) = re.findall(r"^RUN (set -- .*?[^\\])$", dockerfile, re.MULTILINE | re.DOTALL)
    for number in range(wheels):
        (tmp_path / f"tidegate-0.{number}.0-py3-none-any.whl").touch()
    command = command.replace("/wheels/", f"{tmp_path}/")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == (1 if wheels == 2 else 0)
    assert ("dist/ holds 2 wheels" in done.stderr) is (wheels == 2)
    assert "COPY ${WHEEL} /wheels/" in dockerfile
    assert dockerfile.count("COPY --from=wheel /wheels /tmp/wheels") == dockerfile.count("pip install")
