"""docker/kubernetes: every object is one by Kubernetes' schema, and the configuration is one."""

from __future__ import annotations

import copy
from typing import Any

import kubernetes_validate
import pytest
import yaml

from consumers.config import parse
from tests.docker.dockerfile import steps
from tests.docker.queries import DOCKER

OBJECTS: list[dict[str, Any]] = list(
    yaml.safe_load_all((DOCKER / "kubernetes/headwater.yaml").read_text())
)
BY_KIND = {made["kind"]: made for made in OBJECTS}
VERSION = "1.30"


@pytest.mark.parametrize("kind", BY_KIND)
def test_object_is_one_by_kubernetes_schema(kind: str) -> None:
    """No key it would drop, no value of another type."""
    kubernetes_validate.validate(BY_KIND[kind], VERSION, strict=True)


BREAKS: dict[str, Any] = {
    "a key": (("spec", "replica"), 2),
    "a type": (("spec", "replicas"), "2"),
    "a probe": (("spec", "template", "spec", "containers", 0, "livenessProbe", "httpget"), {}),
    "a port": (("spec", "template", "spec", "containers", 0, "ports", 0, "containerPort"), "x"),
    "a claim": (("spec", "volumeClaimTemplates", 0, "spec", "accessMode"), ["ReadWriteOnce"]),
}


@pytest.mark.parametrize("broken", BREAKS, ids=lambda name: name.replace(" ", "_"))
def test_broken_object_is_found_out(broken: str) -> None:
    """The check itself."""
    made = copy.deepcopy(BY_KIND["StatefulSet"])
    path, value = BREAKS[broken]
    inside: Any = made
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(made, VERSION, strict=True)


def test_configuration_of_the_cluster_is_one_of_headwaters() -> None:
    """Read as `headwater run` reads it; it listens where the probes ask."""
    config = parse(BY_KIND["ConfigMap"]["data"]["headwater.toml"])
    pod = BY_KIND["StatefulSet"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}

    assert config.http.port == container["ports"][0]["containerPort"]
    assert not config.http.loopback
    assert str(config.snapshots.directory) in mounted


def test_root_is_read_only_and_what_the_image_writes_is_on_volumes() -> None:
    """State, temporary files, and kernels, which begin as those of the image."""
    image = [s for s in steps(DOCKER / "Dockerfile") if s.name == "ENV"][-1]
    variables = dict(word.split("=", 1) for word in image.words)
    pod = BY_KIND["StatefulSet"]["spec"]["template"]["spec"]
    [container], [first] = pod["containers"], pod["initContainers"]
    writable = {m["mountPath"]: m["name"] for m in container["volumeMounts"] if "readOnly" not in m}
    [kernels] = first["volumeMounts"]
    built = variables["NUMBA_CACHE_DIR"]

    for each in (container, first):
        assert each["securityContext"] == {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert each["image"] == container["image"]
    assert set(writable) == {"/tmp", variables["HOME"], built}
    assert writable[built] == kernels["name"]
    assert first["command"] == ["cp", "-R", f"{built}/.", f"{kernels['mountPath']}/"]


def test_network_admits_only_what_the_service_needs() -> None:
    """In: its port. Out: names, and the broker of its configuration."""
    policy = BY_KIND["NetworkPolicy"]["spec"]
    stateful = BY_KIND["StatefulSet"]["spec"]["template"]
    [container] = stateful["spec"]["containers"]
    config = parse(BY_KIND["ConfigMap"]["data"]["headwater.toml"])
    [came], [names, broker] = policy["ingress"], policy["egress"]

    assert policy["podSelector"]["matchLabels"] == stateful["metadata"]["labels"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [p["port"] for p in came["ports"]] == [container["ports"][0]["name"]]
    assert all("podSelector" in source for source in came["from"]), "not everybody of a namespace"
    assert {(p["port"], p["protocol"]) for p in names["ports"]} == {(53, "UDP"), (53, "TCP")}
    assert [p["port"] for p in broker["ports"]] == [int(config.input.transport.split(":")[-1])]


def test_objects_find_each_other() -> None:
    """Service, budget and volumes are of the pods that are made."""
    stateful, service = BY_KIND["StatefulSet"]["spec"], BY_KIND["Service"]
    pods = stateful["template"]["metadata"]["labels"]
    [container] = stateful["template"]["spec"]["containers"]
    volumes = {volume["name"] for volume in stateful["template"]["spec"]["volumes"]}
    claims = {claim["metadata"]["name"] for claim in stateful["volumeClaimTemplates"]}

    assert stateful["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == stateful["selector"]["matchLabels"] == pods
    assert BY_KIND["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == pods
    [first] = stateful["template"]["spec"]["initContainers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes | claims
    assert {mount["name"] for mount in first["volumeMounts"]} < volumes
    assert stateful["template"]["spec"]["volumes"][0]["configMap"]["name"] in {
        BY_KIND["ConfigMap"]["metadata"]["name"]
    }
