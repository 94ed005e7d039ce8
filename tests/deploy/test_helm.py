"""The chart, rendered with several value files: valid for Kubernetes, and of one piece."""

import math
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from service.observability.metrics import Metrics
from service.settings import Settings
from service.settings.retired import RETIRED
from tests.deploy.conftest import ROOT, find_helm

CHART = ROOT / "deploy/helm/dragoman"
VALUES = [None, *sorted((CHART / "ci").glob("*.yaml"))]
OF_AN_OPERATOR = {"ServiceMonitor", "PrometheusRule"}
OLDEST = "1.27"
DOWNLOADS = {
    "ports": [
        {"port": 443, "protocol": "TCP"},
        {"port": 53, "protocol": "UDP"},
        {"port": 53, "protocol": "TCP"},
    ]
}

every_values = pytest.mark.parametrize("values", VALUES, ids=lambda file: file.stem if file else "default")


def _helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([find_helm(), *arguments], capture_output=True, text=True, check=False)


@cache
def _render(values: Path | None, *options: str, release: str = "talk") -> dict[str, dict[str, Any]]:
    """The manifests by kind; there is at most one of each."""
    files = ["--values", str(values)] if values else []
    done = _helm("template", release, str(CHART), "--namespace", "here", *files, *options)
    assert done.returncode == 0, done.stderr
    manifests = [each for each in yaml.safe_load_all(done.stdout) if each]
    by_kind = {each["kind"]: each for each in manifests}
    assert len(by_kind) == len(manifests)
    return by_kind


def _pod(manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    pod: dict[str, Any] = manifests["Deployment"]["spec"]["template"]["spec"]
    return pod


def _container(manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    [container] = _pod(manifests)["containers"]
    assert isinstance(container, dict)
    return container


@every_values
def test_lint(values: Path | None) -> None:
    done = _helm("lint", "--strict", str(CHART), *(["--values", str(values)] if values else []))
    assert done.returncode == 0, done.stdout


@every_values
@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
def test_kubernetes_takes_every_manifest(values: Path | None, version: str) -> None:
    manifests = _render(values)
    for kind in set(manifests) - OF_AN_OPERATOR:
        kubernetes_validate.validate(manifests[kind], version, strict=True)


def test_what_is_on_and_off() -> None:
    always = {"Deployment", "Service"}
    assert set(_render(CHART / "ci/bare-values.yaml")) == always
    default = always | {"ServiceAccount", "PodDisruptionBudget", "NetworkPolicy"}
    assert set(_render(None)) == default
    everything = _render(CHART / "ci/everything-values.yaml")
    assert set(everything) == default | OF_AN_OPERATOR | {"HorizontalPodAutoscaler"}


@every_values
def test_everything_selects_the_pods(values: Path | None) -> None:
    manifests = _render(values)
    labels = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    for kind, path in {
        "Deployment": ("selector", "matchLabels"),
        "Service": ("selector",),
        "PodDisruptionBudget": ("selector", "matchLabels"),
        "NetworkPolicy": ("podSelector", "matchLabels"),
    }.items():
        selected = manifests.get(kind, {}).get("spec")
        if selected is not None:
            for step in path:
                selected = selected[step]
            assert selected.items() <= labels, kind
            assert len(selected) == 2, kind
    if monitor := manifests.get("ServiceMonitor"):
        spec, service = monitor["spec"], manifests["Service"]
        assert spec["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert service["metadata"]["labels"][spec["jobLabel"]] == "dragoman"
        assert spec["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]
        assert monitor["metadata"]["labels"]["release"] == "prometheus"


@every_values
def test_ports_are_those_that_the_image_listens_on(values: Path | None) -> None:
    manifests = _render(values)
    container = _container(manifests)
    assert container["ports"] == [{"name": "http", "containerPort": 5000, "protocol": "TCP"}]
    assert "EXPOSE 5000" in (ROOT / "Dockerfile").read_text()
    assert [port["targetPort"] for port in manifests["Service"]["spec"]["ports"]] == ["http"]
    paths = {"startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/livez"}
    for probe, path in paths.items():
        assert container[probe]["httpGet"] == {"path": path, "port": "http"}
    if policy := manifests.get("NetworkPolicy"):
        assert [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]] == ["http"]
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        given = yaml.safe_load(values.read_text()) if values else {}
        downloads = [DOWNLOADS] if "publicModels" in given else []
        listed = [*downloads, *given.get("networkPolicy", {}).get("egress", [])]
        assert policy["spec"].get("egress", []) == listed, "otherwise nothing goes out"


@every_values
def test_the_drain_fits_into_the_grace_period(values: Path | None) -> None:
    manifests = _render(values)
    container = _container(manifests)
    name, pause = container["lifecycle"]["preStop"]["exec"]["command"]
    assert name == "sleep"
    variables = {each["name"]: each.get("value") for each in container["env"]}
    drain = float(variables["DRAGOMAN_DRAIN_SECONDS"])
    # Closing connections takes five seconds at most, engines five, and what they are forks of five.
    assert _pod(manifests)["terminationGracePeriodSeconds"] > int(pause) + math.ceil(drain) + 15
    started = container["startupProbe"]
    assert started["periodSeconds"] * started["failureThreshold"] >= 300


@every_values
def test_every_setting_is_one_and_engines_and_the_http_process_have_cores_of_their_own(
    values: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = _container(_render(values))
    ours = {each["name"]: each["value"] for each in container["env"] if each["name"].startswith("DRAGOMAN_")}
    assert {name.removeprefix("DRAGOMAN_").lower() for name in ours} <= set(Settings.model_fields)
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    assert int(container["resources"]["requests"]["cpu"]) == settings.replicas * settings.threads + 1


def test_numbers_stay_as_they_are_written() -> None:
    variables = {
        each["name"]: each.get("value") for each in _container(_render(CHART / "ci/everything-values.yaml"))["env"]
    }
    assert variables["DRAGOMAN_MAX_DOCUMENT_BYTES"] == "5000000"
    assert variables["DRAGOMAN_REQUEST_TIMEOUT_SECONDS"] == "0.25"


@every_values
def test_the_pod_is_confined(values: Path | None) -> None:
    pod = _pod(_render(values))
    assert pod["securityContext"]["runAsNonRoot"] is True
    user = pod["securityContext"]["runAsUser"]
    assert f"USER {user}:{pod['securityContext']['runAsGroup']}" in (ROOT / "Dockerfile").read_text()
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all(mount["readOnly"] for mount in container.get("volumeMounts", ()) if mount["name"] == "model")


def test_an_image_is_named_by_its_tag_or_by_its_digest() -> None:
    assert _container(_render(None))["image"] == "dragoman:0.1.0"
    assert _container(_render(None, "--set", "image.tag=2.0.0"))["image"] == "dragoman:2.0.0"
    by_digest = _container(_render(CHART / "ci/everything-values.yaml"))["image"]
    assert by_digest == f"registry.example/translation/dragoman@sha256:{'0123456789abcdef' * 4}"


def test_an_own_model_is_mounted_where_the_server_looks() -> None:
    manifests = _render(CHART / "ci/own-model-values.yaml")
    container = _container(manifests)
    [mount] = container["volumeMounts"]
    assert {"name": "DRAGOMAN_MODEL", "value": mount["mountPath"]} in container["env"]
    [volume] = _pod(manifests)["volumes"]
    assert volume["name"] == mount["name"]
    assert volume["persistentVolumeClaim"] == {"claimName": "en-de-large", "readOnly": True}


def test_many_models_are_mounted_beside_what_else_is_wanted() -> None:
    manifests = _render(CHART / "ci/many-models-values.yaml")
    container = _container(manifests)
    models, kept = container["volumeMounts"]
    assert {"name": "DRAGOMAN_MODELS", "value": models["mountPath"]} in container["env"]
    assert not any(each["name"] == "DRAGOMAN_MODEL" for each in container["env"])
    assert [volume["name"] for volume in _pod(manifests)["volumes"]] == [models["name"], kept["name"]]


def test_public_models_have_a_cache_and_may_be_downloaded() -> None:
    manifests = _render(CHART / "ci/public-models-values.yaml")
    container = _container(manifests)
    assert {"name": "DRAGOMAN_MODELS", "value": "argos:en-de,argos:de-en"} in container["env"]
    assert container["volumeMounts"] == [{"name": "cache", "mountPath": "/cache"}]
    assert "XDG_CACHE_HOME=/cache" in (ROOT / "Dockerfile").read_text()
    assert _pod(manifests)["volumes"] == [{"name": "cache", "persistentVolumeClaim": {"claimName": "models"}}]
    offline = _render(CHART / "ci/public-models-values.yaml", "--set", "settings.offline=true")
    assert "egress" not in offline["NetworkPolicy"]["spec"]


def test_a_cache_without_a_claim_is_lost_with_the_pod() -> None:
    [volume] = _pod(_render(None, "--set", "cache.enabled=true,cache.sizeLimit=2Gi"))["volumes"]
    assert volume == {"name": "cache", "emptyDir": {"sizeLimit": "2Gi"}}
    [volume] = _pod(_render(None, "--set", "publicModels=acme/en-de"))["volumes"]
    assert volume == {"name": "cache", "emptyDir": {}}
    assert "volumes" not in _pod(_render(None))


def test_autoscaling_asks_for_what_the_adapter_gives() -> None:
    manifests = _render(CHART / "ci/everything-values.yaml")
    assert "replicas" not in manifests["Deployment"]["spec"], "it would undo what the autoscaler did"
    spec = manifests["HorizontalPodAutoscaler"]["spec"]
    assert spec["scaleTargetRef"]["name"] == manifests["Deployment"]["metadata"]["name"]
    adapter = yaml.safe_load((ROOT / "deploy/helm/prometheus-adapter-values.yaml").read_text())
    [rule] = adapter["rules"]["custom"]
    assert spec["metrics"][0]["pods"]["metric"]["name"] == rule["name"]["as"]
    exposed = Metrics("1", "int8").exposition().decode()
    for metric in ("dragoman_requests_running", "dragoman_requests_waiting"):
        assert metric in rule["metricsQuery"]
        assert f"# TYPE {metric} gauge" in exposed


def test_the_operator_gets_our_rules() -> None:
    rules = yaml.safe_load((ROOT / "deploy/prometheus/rules.yml").read_text())
    assert _render(CHART / "ci/everything-values.yaml")["PrometheusRule"]["spec"] == rules


def test_two_releases_do_not_share_names() -> None:
    one, other = (_render(None, release=name) for name in ("talk", "dragoman-two"))
    assert one["Service"]["metadata"]["name"] == "talk-dragoman"
    assert other["Service"]["metadata"]["name"] == "dragoman-two"
    assert one["Deployment"]["spec"]["selector"] != other["Deployment"]["spec"]["selector"]


_GONE, _SUCCESSOR = next(iter(RETIRED.items()))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("replicas=3", "replicas"),
        ("settings.port=6000", "port"),
        ("settings.Slots=3", "Slots"),
        ("settings.slotz=3", "slotz"),
        ("settings.model=/models/x", "model"),
        ("service.type=Foo", "type"),
        ("settings.drain_seconds=-1", "drain_seconds"),
        ("image.tags=x", "tags"),
        ("image.digest=0123", "digest"),
        ("replicaCount=-1", "replicaCount"),
        ("autoscaling.maxReplicas=1,autoscaling.enabled=true", "maxReplicas"),
        (f"settings.{_GONE}=3", f"settings.{_GONE} is no setting any more: {_SUCCESSOR}"),
        ("extraEnv[0].value=600", "extraEnv: an entry has no name"),
        (
            "publicModels=acme/en-de,model.existingClaim=x",
            "publicModels and model.existingClaim: only one of them can be set",
        ),
        # The later one of two would win: a drain of ten minutes in a grace period of one.
        *(
            (f"model.existingClaim=x,extraEnv[0].name={name},extraEnv[0].value=600", f"extraEnv: {name} ")
            for name in (
                "DRAGOMAN_DRAIN_SECONDS",
                "DRAGOMAN_HOST",
                "DRAGOMAN_PORT",
                "DRAGOMAN_MODEL",
                "DRAGOMAN_MODELS",
                "dragoman_replicas",
            )
        ),
    ],
)
def test_wrong_values_are_refused_and_named(wrong: str, named: str) -> None:
    done = _helm("template", "talk", str(CHART), "--set", wrong)
    assert done.returncode != 0
    assert named in done.stderr


def test_settings_that_are_secrets_come_from_elsewhere() -> None:
    secret = "extraEnv[0].name=DRAGOMAN_REDIS_URL,extraEnv[0].valueFrom.secretKeyRef.name=redis"
    container = _container(_render(None, "--set", secret))
    assert {"name": "DRAGOMAN_REDIS_URL", "valueFrom": {"secretKeyRef": {"name": "redis"}}} in container["env"]
