"""docker/Dockerfile without an engine: `python -m tests.long.image`.

Its steps run in an empty directory, with Python 3.11 and nothing else of this machine; then what it
built runs as its user, predicts and learns a data set, compiles nothing more, is healthy by its own
health check and stops cleanly. It takes minutes: everything is installed again.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

from tests.docker.dockerfile import Built, build
from tests.docker.queries import DOCKER, ROOT

RECORDS = 2310
OUTER = ("PIP_INDEX_URL", "PIP_CERT", "PIP_DEFAULT_TIMEOUT", "SSL_CERT_FILE", "HTTPS_PROXY")


def _as_user(built: Built, command: list[str]) -> list[str]:
    """The command as it runs in a container: another user, only the image's variables."""
    user, _, group = built.user.partition(":")
    # It may look where this machine keeps its Python; write where it should not it may not.
    looks = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    dropped = [f"--reuid={user}", f"--regid={group}", "--clear-groups", *looks]
    variables = [f"{name}={value}" for name, value in built.environment.items()]
    return ["setpriv", *dropped, "env", "-i", *variables, *command]


def _kernels(built: Built) -> set[Path]:
    return set(Path(built.environment["NUMBA_CACHE_DIR"]).rglob("*.nbc"))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _serve(built: Built) -> None:
    """The service of docker/headwater.toml on the embedded log, by the image's own commands."""
    home = Path(built.environment["HOME"])
    text = (DOCKER / "headwater.toml").read_text()
    text = text.replace("kafka://kafka:9092", "sqlite:feed.db").replace("/var/lib", f"{home}/state")
    (home / "headwater.toml").write_text(text)
    data = next(built.root.rglob("river/datasets/segment.csv.zip"))
    late = ["--label-topic", "segments-labels", "--label", "category", "--delay", "50"]
    shell = f"python -m zipfile -e {data} . && mv segment.csv.zip segment.csv"
    for command in (
        ["sh", "-ec", shell],
        ["headwater", "check", "headwater.toml", "--create"],
        ["headwater", "produce", "segments", "segment.csv", "--transport", "sqlite:feed.db", *late],
    ):
        subprocess.run(_as_user(built, command), cwd=home, check=True, stdout=subprocess.DEVNULL)
    before, started = _kernels(built), time.monotonic()
    run = [*built.entrypoint, "run", "headwater.toml"]
    with (home / "said").open("wb") as said:
        service = subprocess.Popen(_as_user(built, run), cwd=home, stderr=said)
    try:
        while not _learned(service, (home / "said").read_text()):
            if time.monotonic() > started + 120:
                raise AssertionError((home / "said").read_text())
            time.sleep(0.1)
        _say(f"{RECORDS} records learned {time.monotonic() - started:.1f} s after the start")
        healthy = subprocess.run(_as_user(built, built.health), check=False).returncode
        service.send_signal(signal.SIGTERM)
        code = service.wait(60)
    finally:
        service.kill()
        service.wait()
    words = (home / "said").read_text()
    assert healthy == 0, "the health check fails on a service that is well"
    assert subprocess.run(_as_user(built, built.health), check=False, stderr=-3).returncode, (
        "the health check holds where nothing runs"
    )
    assert code == 0, words
    assert "compiling kernels" not in words, words
    assert "kernels compile" not in words, words
    assert _kernels(built) == before, sorted(_kernels(built) - before)
    _same_bits(built, home)
    _say(f"healthy, stopped with 0, none of {len(before)} kernels compiled again")


def _same_bits(built: Built, home: Path) -> None:
    """The model of the image's kernels is that of kernels compiled for this very processor."""
    command = ["headwater", "replay", "headwater.toml", "segment.csv", "--label", "category"]
    prints = []
    for own in (False, True):
        environment = dict(built.environment)
        if own:
            del environment["NUMBA_CPU_NAME"]
            environment["NUMBA_CACHE_DIR"] = str(home / "kernels")
        told = subprocess.run(
            _as_user(replace(built, environment=environment), [*command, "--json"]),
            cwd=home,
            check=True,
            capture_output=True,
        )
        prints.append(json.loads(told.stdout)["fingerprint"])
    assert prints[0] == prints[1], prints
    _say(f"the same bits as by kernels of this processor: {prints[0]}")


def _learned(service: subprocess.Popen[bytes], said: str) -> bool:
    assert service.poll() is None, said
    try:
        with urlopen("http://127.0.0.1:8321/metrics", timeout=5) as answer:  # this machine only
            text = answer.read().decode()
    except OSError:
        return False
    found = re.search(r'^headwater_learned_total\{shard="0"\} (\S+)$', text, re.MULTILINE)
    return found is not None and float(found[1]) == RECORDS


def main() -> int:
    """Build it, run it, measure it."""
    if os.getuid():
        _say("it runs as another user, so it must be started by root")
        return 2
    with tempfile.TemporaryDirectory(prefix="headwater-image-") as made:
        directory = Path(made)
        directory.chmod(0o755)
        context = directory / "context"
        context.mkdir()
        archive = subprocess.run(
            ["git", "-C", ROOT, "archive", "HEAD"], check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", context], input=archive.stdout, check=True)
        outer = {name: os.environ[name] for name in OUTER if name in os.environ}
        started = time.monotonic()
        built = build(DOCKER / "Dockerfile", context, directory / "image", outer)
        size = subprocess.run(["du", "-sm", built.root], capture_output=True, text=True, check=True)
        _say(f"built in {time.monotonic() - started:.0f} s: {size.stdout.split()[0]} MB on Python")
        _serve(built)
        _say(json.dumps({"user": built.user, "command": built.entrypoint + built.command[:1]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
