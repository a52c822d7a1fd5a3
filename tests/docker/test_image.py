"""docker/Dockerfile as it is written; `python -m tests.long.image` runs its steps."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from consumers.config import load
from tests.docker.dockerfile import steps
from tests.docker.queries import DOCKER, ROOT

STEPS = steps(DOCKER / "Dockerfile")
FIRST = [i for i, step in enumerate(STEPS) if step.name == "FROM"]
FINAL = STEPS[FIRST[-1] :]


def variables(part: list[Any]) -> dict[str, str]:
    """Those that its ENV steps set."""
    words = [word for step in part if step.name == "ENV" for word in step.words]
    return dict(word.split("=", 1) for word in words)


def only(name: str) -> Any:
    """The one step of that name in the final stage."""
    [found] = [step for step in FINAL if step.name == name]
    return found


def test_image_runs_the_service_as_nobody_in_particular() -> None:
    """By number, so that an orchestrator can see that it is not root."""
    user, group = only("USER").rest.split(":")

    assert min(int(user), int(group)) > 0
    assert only("ENTRYPOINT").words + only("CMD").words == [
        *("headwater", "run"),
        "/etc/headwater/headwater.toml",
    ]


def test_kernels_are_compiled_for_the_processor_they_run_on() -> None:
    """One that every host has; and a start finds them where the build left them."""
    built, runs = variables(STEPS[: FIRST[-1]]), variables(FINAL)

    assert built["NUMBA_CPU_NAME"] == runs["NUMBA_CPU_NAME"] == "generic"
    assert built["NUMBA_CACHE_DIR"] == runs["NUMBA_CACHE_DIR"]
    copied = [s.words[-1] for s in FINAL if s.name == "COPY" and "from" in s.flags]
    assert runs["NUMBA_CACHE_DIR"] in copied


def test_health_check_asks_where_the_service_listens() -> None:
    """The default port, which docker/headwater.toml keeps."""
    port = load(DOCKER / "headwater.toml").http.port

    assert f"127.0.0.1:{port}/healthz" in only("HEALTHCHECK").rest
    assert only("EXPOSE").rest == str(port)


def test_build_copies_only_what_the_context_lets_in() -> None:
    """Each file that is copied from the context is there and is not ignored."""
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    let_in = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {
        source
        for step in STEPS
        if step.name == "COPY" and "from" not in step.flags
        for source in step.words[:-1]
    }

    assert "*" in ignored
    assert copied == let_in
    assert all((ROOT / source).exists() for source in copied)


def test_kubernetes_runs_the_user_and_port_of_the_image() -> None:
    """What a cluster enforces is what the image says."""
    documents = yaml.safe_load_all((DOCKER / "kubernetes/headwater.yaml").read_text())
    pod = next(d for d in documents if d["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    security, [container] = pod["securityContext"], pod["containers"]

    assert f"{security['runAsUser']}:{security['runAsGroup']}" == only("USER").rest
    assert container["args"] == only("CMD").words
    assert container["ports"][0]["containerPort"] == int(only("EXPOSE").rest)


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe", "readinessProbe"])
def test_probes_ask_pages_that_there_are(probe: str) -> None:
    """Liveness never asks for readiness: a replay would be killed for being one."""
    documents = yaml.safe_load_all((DOCKER / "kubernetes/headwater.yaml").read_text())
    pod = next(d for d in documents if d["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    asked = pod["containers"][0][probe]["httpGet"]

    assert asked["port"] == "http"
    assert asked["path"] == ("/readyz" if probe == "readinessProbe" else "/healthz")
