"""The chart of deploy/helm: Helm's own linter and rendering, the schemas of Kubernetes for what it
renders, and the engine's own check of the configuration in it."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from cordboard.config.load import load
from cordboard.config.schema import Config
from cordboard.version import __version__

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "cordboard"
VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
OLDEST_KUBERNETES = "1.27"
Manifests = dict[str, dict[str, Any]]

each_set_of_values = pytest.mark.parametrize("values", VALUES, ids=lambda path: path.name)


@pytest.fixture(scope="session")
def helm() -> str:
    """Helm itself. Its tests are skipped where it cannot be had, and fail where it is missing."""
    tool = ROOT / "scripts" / "install-helm"
    impossible = subprocess.run([tool, "--missing"], capture_output=True, text=True, check=False)
    if impossible.returncode:
        pytest.skip(f"not tried: {impossible.stdout.strip()}")
    found = subprocess.run([tool, "--print"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.fail(found.stderr, pytrace=False)
    return found.stdout.strip()


def run(helm: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm, *arguments], capture_output=True, text=True, check=False)


@functools.cache
def rendered(helm: str, values: Path) -> Manifests:
    """The manifests by their kind."""
    said = run(helm, "template", "desk", CHART, "--values", values)
    assert said.returncode == 0, said.stderr
    documents = YAML(typ="safe").load_all(said.stdout)
    return {document["kind"]: document for document in documents if document}


def pod_of(manifests: Manifests) -> tuple[dict[str, Any], dict[str, Any]]:
    """The pod's description, and that of its only container."""
    pod = manifests["StatefulSet"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    return pod, container


def engine_configuration(manifests: Manifests, folder: Path) -> Config:
    """The ConfigMap as the engine reads it in a pod, with files of secrets and variables."""
    text = manifests["ConfigMap"]["data"]["ai-agent.yaml"]
    for path in set(re.findall(r"/run/(?:secrets|nats-tls)/[a-z_.]+", text)):
        file = folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"content-of-{file.name}")
        file.chmod(0o440)
    path = folder / "ai-agent.yaml"
    path.write_text(text.replace("/run/", f"{folder}/run/").replace("/app/", f"{folder}/app/"))
    return load(path, {"CORDBOARD_NODE": "desk-cordboard-2", "POD_IP": "10.244.1.7"}).config


@each_set_of_values
def test_helms_linter_has_nothing_to_say(helm: str, values: Path) -> None:
    said = run(helm, "lint", "--strict", CHART, "--values", values)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "WARNING" not in said.stdout
    assert "ERROR" not in said.stdout


@each_set_of_values
@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, kubernetes_validate.latest_version()])
def test_what_it_renders_fits_the_schemas_of_kubernetes(
    helm: str, values: Path, version: str
) -> None:
    manifests = rendered(helm, values)
    assert {"ConfigMap", "PodDisruptionBudget", "Service", "StatefulSet"} <= manifests.keys()
    for manifest in manifests.values():
        kubernetes_validate.validate(manifest, version, strict=True)


@each_set_of_values
def test_the_engine_takes_the_configuration(helm: str, values: Path, tmp_path: Path) -> None:
    config = engine_configuration(rendered(helm, values), tmp_path)
    assert config.cluster is not None
    assert config.cluster.node == "desk-cordboard-2"
    assert config.audiosocket.advertise_host == "10.244.1.7"
    assert config.admin.token is not None
    assert config.asterisk is not None


def test_values_reach_the_engine(helm: str, tmp_path: Path) -> None:
    manifests = rendered(helm, CHART / "ci" / "full-values.yaml")
    config = engine_configuration(manifests, tmp_path)
    assert config.cluster is not None
    assert config.cluster.nats.servers[0] == "tls://10.0.0.5:4222"
    assert config.cluster.nats.tls is not None
    assert config.cluster.nats.tls.certificate is not None
    assert (config.calls.max_calls, config.calls.shutdown_grace_ms) == (80, 3_600_000)
    database = config.calls.index.database.get_secret_value()
    assert database == (
        "postgresql://cordboard:content-of-postgres_password@10.0.0.9:5432/cordboard"
    )
    _, container = pod_of(manifests)
    assert container["image"] == "registry.example/cordboard:1.2.3"
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/app/prompts", "/run/nats-tls", "/run/secrets", "/app/var", "/tmp"} <= mounts


def test_values_are_taken_as_they_are_written(helm: str, tmp_path: Path) -> None:
    """Values that YAML would take for a truth value, a comment, a mapping or a number."""
    path = tmp_path / "values.yaml"
    odd = {
        "existingSecret": "0815",
        "priorityClassName": "7",
        "asterisk": {"url": "http://10.0.0.20:8088", "username": "yes", "app": "desk"},
        "nats": {"servers": ["nats://10.0.0.5:4222"], "user": "a: #b", "tlsSecret": "on"},
        "postgres": {"host": "db", "user": "12"},
        "storage": {"className": "-"},
        "networkPolicy": {"asteriskCidrs": ["::/0"], "natsCidrs": ["::1/128"]},
    }
    values = YAML(typ="safe").load(CHART / "ci" / "minimal-values.yaml")
    path.write_text(json.dumps({**values, **odd}))
    manifests = rendered(helm, path)
    for manifest in manifests.values():
        kubernetes_validate.validate(manifest, OLDEST_KUBERNETES, strict=True)
    config = engine_configuration(manifests, tmp_path)
    assert config.asterisk is not None
    assert config.asterisk.username == "yes"
    assert config.cluster is not None
    assert config.cluster.nats.user == "a: #b"
    assert "postgresql://12:" in config.calls.index.database.get_secret_value()
    [storage] = manifests["StatefulSet"]["spec"]["volumeClaimTemplates"]
    assert storage["spec"]["storageClassName"] == "-"
    ways = manifests["NetworkPolicy"]["spec"]["egress"]
    assert ways[1]["to"] == [{"ipBlock": {"cidr": "::/0"}}]


@each_set_of_values
def test_the_pod_has_no_rights_and_no_writable_files(helm: str, values: Path) -> None:
    pod, container = pod_of(rendered(helm, values))
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001, "the user of the image"
    assert "USER cordboard" in (ROOT / "Dockerfile").read_text()
    assert "--uid 10001" in (ROOT / "Dockerfile").read_text()
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}
    assert writable == {"/app/var", "/tmp"}


@each_set_of_values
def test_probes_and_the_time_to_hand_calls_over(helm: str, values: Path, tmp_path: Path) -> None:
    manifests = rendered(helm, values)
    pod, container = pod_of(manifests)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert container["livenessProbe"]["httpGet"] == {"path": "/live", "port": "health"}
    ready = container["readinessProbe"]["exec"]["command"]
    assert f"http://127.0.0.1:{ports['health']}/ready" in ready[-1]
    compile(ready[-1], "the readiness probe", "exec")
    config = engine_configuration(manifests, tmp_path)
    grace = config.calls.shutdown_grace_ms / 1000
    assert grace >= 300
    assert pod["terminationGracePeriodSeconds"] > grace + 30


@each_set_of_values
def test_no_secret_is_in_a_manifest(helm: str, values: Path) -> None:
    manifests = rendered(helm, values)
    assert "Secret" not in manifests
    text = manifests["ConfigMap"]["data"]["ai-agent.yaml"]
    said = re.findall(r"(?:password|token|api_key|database): (.*)", text)
    assert len(said) >= 3
    assert all("${file:/run/secrets/" in value for value in said), said
    _, container = pod_of(manifests)
    names = [each["name"] for each in container["env"]]
    assert not [name for name in names if re.search("PASSWORD|TOKEN|KEY|SECRET", name)]


def test_a_pods_name_is_a_node_of_the_cluster(helm: str, tmp_path: Path) -> None:
    manifests = rendered(helm, CHART / "ci" / "host-network-values.yaml")
    name = f"{manifests['StatefulSet']['metadata']['name']}-999"
    assert re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name)
    [variable] = [e for e in pod_of(manifests)[1]["env"] if e["name"] == "CORDBOARD_NODE"]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"


def test_on_the_network_of_the_nodes_no_two_engines_share_one(helm: str) -> None:
    manifests = rendered(helm, CHART / "ci" / "host-network-values.yaml")
    pod, _ = pod_of(manifests)
    affinity = pod["affinity"]["podAntiAffinity"]
    assert "requiredDuringSchedulingIgnoredDuringExecution" in affinity
    assert pod["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert "NetworkPolicy" not in manifests, "it would not hold"


def test_the_network_policy_names_who_may_come_and_where_engines_may_go(helm: str) -> None:
    spec = rendered(helm, CHART / "ci" / "full-values.yaml")["NetworkPolicy"]["spec"]
    doors = {rule["ports"][0]["port"]: rule["from"] for rule in spec["ingress"]}
    assert doors[8090] == [{"ipBlock": {"cidr": "10.0.0.20/32"}}]
    assert list(doors) == [8090, 15000]
    ways = {rule["ports"][0]["port"]: rule.get("to") for rule in spec["egress"]}
    assert ways.keys() == {53, 8089, 4222, 5432, 443, 9000}
    assert ways[5432] == [{"ipBlock": {"cidr": "10.0.0.9/32"}}]
    default = rendered(helm, CHART / "ci" / "minimal-values.yaml")["NetworkPolicy"]["spec"]
    assert [rule["ports"][0]["port"] for rule in default["ingress"]] == [8090]


@pytest.mark.parametrize(
    ("unset", "advice"),
    [
        ("existingSecret=", "existingSecret is missing"),
        ("asterisk.url=", "asterisk.url is missing"),
        ("nats.servers=null", "nats.servers is missing"),
        ("config.contexts=null", "config is missing"),
        ("healthPort=a: b", "a value of the chart makes no YAML"),
    ],
)
def test_a_value_that_is_missing_is_named(helm: str, unset: str, advice: str) -> None:
    values = CHART / "ci" / "minimal-values.yaml"
    said = run(helm, "template", "desk", CHART, "--values", values, "--set", unset)
    assert said.returncode != 0
    assert advice in said.stderr


def test_the_chart_is_of_this_version() -> None:
    chart = YAML(typ="safe").load(CHART / "Chart.yaml")
    assert chart["appVersion"] == __version__
