"""compose.yaml: one by the specification, what it names is there, nothing listens to the world."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import compose_spec
import pytest
import yaml

from consumers.config import load
from tests.docker.dockerfile import steps
from tests.docker.queries import DOCKER, ROOT
from tests.kafka import broker

FILE = DOCKER / "compose.yaml"
TEXT = FILE.read_text()
# As the client reads it where no variable is set.
COMPOSE: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", TEXT))
SERVICES: dict[str, Any] = COMPOSE["services"]


def mounts(service: str) -> dict[str, str]:
    """Where each of its files and directories lies: inside to outside."""
    found = {}
    for mount in SERVICES[service].get("volumes", ()):
        outside, inside, *_ = mount.split(":")
        found[inside] = outside
    for config in SERVICES[service].get("configs", ()):
        found[config["target"]] = COMPOSE["configs"][config["source"]]["file"]
    return found


def outside(service: str, path: str) -> str:
    """The file in docker/ that a service sees as `path`."""
    inside = max((m for m in mounts(service) if path.startswith(m)), key=len)
    return mounts(service)[inside] + path.removeprefix(inside)


def test_compose_file_is_one_by_the_specification() -> None:
    """Keys, types, durations and choices, as the Compose Specification has them."""
    compose_spec.PyCompose.from_yaml(yaml.safe_dump(COMPOSE))


BREAKS: dict[str, Any] = {
    "a key": (("volume",), {}),
    "a key of a service": (("services", "kafka", "imag"), "x"),
    "a type": (("services", "grafana", "ports"), "3000"),
    "a choice": (("services", "headwater", "restart"), "perhaps"),
    "a condition": (("services", "headwater", "depends_on", "topics", "condition"), "done"),
    "a duration": (("services", "kafka", "healthcheck", "interval"), "5parsecs"),
}


@pytest.mark.parametrize("broken", BREAKS, ids=lambda name: name.replace(" ", "_"))
def test_broken_compose_file_is_found_out(broken: str) -> None:
    """The check itself."""
    made = copy.deepcopy(COMPOSE)
    path, value = BREAKS[broken]
    inside: Any = made
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value

    with pytest.raises(ValueError, match=r"."):
        compose_spec.PyCompose.from_yaml(yaml.safe_dump(made))


def test_docker_compose_takes_the_file() -> None:
    """The client's own reading, where it has the plugin; it needs no engine."""
    asked = ["docker", "compose", "version"]
    if shutil.which("docker") is None or subprocess.run(asked, capture_output=True).returncode:
        pytest.skip("needs the docker client with its compose plugin")
    told = subprocess.run(
        ["docker", "compose", "--file", FILE, "config", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert told.returncode == 0, told.stderr
    assert set(json.loads(told.stdout)["services"]) == set(SERVICES)


def test_what_compose_names_is_there() -> None:
    """Services that are waited for, volumes, configurations, and every file that is mounted."""
    for name, service in SERVICES.items():
        assert set(service.get("depends_on", ())) <= set(SERVICES), name
        for source in mounts(name).values():
            if source.startswith("."):
                assert (DOCKER / source).exists(), source
            else:
                assert source in COMPOSE["volumes"], source
    used = {source for name in SERVICES for source in mounts(name).values()}
    assert set(COMPOSE["volumes"]) == {source for source in used if not source.startswith(".")}


def test_each_image_can_be_pinned_by_its_digest_without_an_edit() -> None:
    """By a variable; the page for operators has a line for each, with the tag of the file."""
    told = (ROOT / "docs/operations.md").read_text()
    found = dict(re.findall(r"\$\{(\w+)_IMAGE:-([\w./-]+:[\w.-]+)\}", TEXT))
    used = {s["image"] for s in SERVICES.values()} - {"headwater:latest"}

    assert set(found.values()) == {*used, "python:3.11-slim"}
    for name, image in found.items():
        assert f" {name}={image}" in told


def test_image_is_built_on_the_python_that_compose_names() -> None:
    """Both stages, and the same tag without a variable."""
    bases = [step for step in steps(DOCKER / "Dockerfile") if step.name in ("ARG", "FROM")]
    default = SERVICES["headwater"]["build"]["args"]["PYTHON_IMAGE"]

    assert [(step.name, step.words[0]) for step in bases] == [
        ("ARG", "PYTHON_IMAGE=python:3.11-slim"),
        ("FROM", "${PYTHON_IMAGE}"),
        ("FROM", "${PYTHON_IMAGE}"),
    ]
    assert default == "python:3.11-slim"


def test_only_this_machine_can_reach_what_compose_starts() -> None:
    """Nothing of it asks for a password."""
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]

    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_grafana_has_no_login_with_a_known_password() -> None:
    """Without the form, admin:admin was still taken in a header, and may do everything."""
    settings = SERVICES["grafana"]["environment"]

    assert settings["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert settings["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"
    assert settings["GF_AUTH_BASIC_ENABLED"] == "false"
    assert settings["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"


def test_parts_of_the_stack_name_each_other_rightly() -> None:
    """Prometheus finds headwater, Grafana Prometheus and its dashboards, and all meet at Kafka."""
    config = load(DOCKER / "headwater.toml")
    scraped = yaml.safe_load((DOCKER / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    [source] = yaml.safe_load(
        (DOCKER / "grafana/provisioning/datasources/prometheus.yaml").read_text()
    )["datasources"]
    [provider] = yaml.safe_load(
        (DOCKER / "grafana/provisioning/dashboards/headwater.yaml").read_text()
    )["providers"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    chosen = json.loads((DOCKER / outside("grafana", home)).read_text())["templating"]["list"][0]
    feed = SERVICES["feeder"]["command"][0]

    assert [job["static_configs"] for job in scraped] == [
        [{"targets": [f"headwater:{config.http.port}"]}]
    ]
    assert source["url"] == "http://prometheus:9090"
    assert chosen["current"]["value"] == source["uid"]
    assert (DOCKER / outside("grafana", provider["options"]["path"])).is_dir()
    assert config.input.transport == "kafka://kafka:9092"
    assert "PLAINTEXT://kafka:9092" in (
        SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")
    )
    assert f"produce {config.input.observations} " in feed
    assert f"--transport {config.input.transport} " in feed
    assert f"--label-topic {config.input.labels} " in feed
    assert str(config.snapshots.directory) in mounts("headwater")


@pytest.mark.kafka
def test_kafka_takes_the_settings_of_compose(tmp_path: Path) -> None:
    """Its own tool reads them, as the image makes them of variables, and formats a log by them."""
    java = broker.installed_java()
    jars = broker._jars() if java else None
    if not (java and jars):
        pytest.skip("needs Java 17 or newer and Maven")
    environment = SERVICES["kafka"]["environment"]
    settings = {
        name.removeprefix("KAFKA_").replace("_", ".").lower(): value
        for name, value in environment.items()
        if name != "KAFKA_HEAP_OPTS"
    }
    settings["log.dirs"] = str(tmp_path / "data")
    properties = tmp_path / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    tool = [java, "-cp", f"{jars}/*", "kafka.tools.StorageTool", "format"]
    done = subprocess.run(
        [*tool, "-t", broker.CLUSTER_ID, "-c", properties], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "data/meta.properties").exists()
