"""No command shows a secret of its configuration, and no file it writes holds one."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from consumers.transports import open_log
from tests.acceptance.conftest import Shell
from tests.calling import call
from tests.config.every_key import PASSWORD, SECRETS, SIGNING, TOKEN, place, shown
from tests.consumers.feeds import config_text, fill, phishing

FEATURES = tuple(sorted(phishing(1)[0][0]))
IN_URL = "Rk4wTz8sHq2vBn6y"
OTHER = "77aa01bce3d95f28" * 4
HOLDS_SECRETS = ("signing-key", "read-token", "write-token", "registry-password", "svc.toml")
NEVER = (*SECRETS, IN_URL, OTHER)
SNAPSHOTS = """[serve]
read_token = "${file:read-token}"
write_token = "${file:write-token}"
[snapshots]
key = "${file:signing-key}"
copy_to = "COPY"
"""
KAFKA = """[telemetry]
level = "debug"
[kafka]
sasl_plain_password = "${env:HEADWATER_TEST_PASSWORD}"
"""


@pytest.fixture
def said(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What commands printed, of a service with 60 records and a secret of every kind."""
    place(shell.directory, monkeypatch.setenv)
    with closing(open_log(f"sqlite:{shell.directory / 'log.db'}")) as log:
        fill(log, phishing(60))
    return []


def configured(shell: Shell, copy_to: str, more: str = "") -> None:
    """Write the configuration."""
    text = config_text("sqlite:log.db", FEATURES, more=KAFKA + more)
    shell.write("svc.toml", text.replace("[snapshots]\n", SNAPSHOTS.replace("COPY", copy_to)))


def written(directory: Path) -> dict[str, list[str]]:
    """Which secrets each file holds, but for those that are to hold them."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    found = {path.name: shown(path.read_bytes(), NEVER) for path in files}
    assert len(files) > 4
    return {
        name: secrets for name, secrets in found.items() if secrets and name not in HOLDS_SECRETS
    }


def test_secret_of_a_service_is_in_no_output_and_no_file(shell: Shell, said: list[str]) -> None:
    """Journal, predictions, snapshots, their copies; whole, damaged, and of another key."""

    def typed(*arguments: str, code: int = 0) -> None:
        done = shell(*arguments, code=code)
        said.append(f"{arguments}: {done.stdout}{done.stderr}")

    configured(shell, f"file://{shell.directory}/copies?token={TOKEN}")
    typed("check", "svc.toml")
    typed("run", "svc.toml", "--drain")
    for command in ("list", "verify"):
        typed("snapshots", command, "svc.toml")
    typed("rebuild", "svc.toml", "--at", "1")
    typed("tail", "svc-journal", "--config", "svc.toml", "--from-beginning", "--drain")
    snapshots = sorted((shell.directory / "headwater-state").rglob("*.hws"))
    assert snapshots
    for path in snapshots:
        path.write_bytes(path.read_bytes()[:-40])
    typed("run", "svc.toml", "--drain")
    shell.write("signing-key", OTHER)
    typed("run", "svc.toml", "--drain")
    typed("check", "svc.toml")

    assert any("not used" in each for each in said), said
    assert [each for each in said if shown(each, NEVER)] == []
    assert written(shell.directory) == {}


@pytest.mark.parametrize(
    "copy_to",
    [
        f"ftp://ann:{IN_URL}@127.0.0.1:1/x?token={TOKEN}",
        f"nothing://ann:{IN_URL}@127.0.0.1/x?token={TOKEN}",
        f"file:///proc/none/{{x}}?token={TOKEN}",
    ],
)
def test_place_for_copies_that_fails_is_named_without_its_secrets(
    shell: Shell, said: list[str], copy_to: str
) -> None:
    """The driver's own words may repeat them."""
    configured(shell, copy_to)
    for command in (["check", "svc.toml"], ["run", "svc.toml", "--drain"]):
        done = call(*command, directory=shell.directory)
        said.append(f"{done.stdout}{done.stderr}")

    assert any(word in "".join(said) for word in ("token=***", "copy_to")), said
    assert [each for each in said if shown(each, NEVER)] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('key = "${file:signing-key}"', f'key = "{SIGNING}"'),
        ("[kafka]", f'[kafka]\nssl_password = "{PASSWORD[:10]}"'),
        ("[kafka]", f'[model2]\ntoken = "{SIGNING}"\n[kafka]'),
        ("[kafka]", f'[http]\npassword = "{SIGNING}"\n[kafka]'),
        ('type = "GaussianNB"', f'type = "GaussianNB"\ntoken = "{SIGNING}"'),
        ('type = "GaussianNB"', f'type = "GaussianNB"\nhalf_life = "s3://a:{IN_URL}@b/"'),
        ('transport = "sqlite:log.db"', f'transport = "kafka://ann:{IN_URL}@127.0.0.1:1"'),
        ('observations = "obs"', f'observations = "{SIGNING}'),
    ],
)
def test_command_refuses_a_secret_in_a_wrong_place_without_showing_it(
    shell: Shell, said: list[str], old: str, new: str
) -> None:
    """As every command does, since it reads the configuration first."""
    configured(shell, f"file://{shell.directory}/copies?token={TOKEN}")
    text = (shell.directory / "svc.toml").read_text()
    assert text.count(old) == 1
    shell.write("svc.toml", text.replace(old, new))
    done = shell("check", "svc.toml", code=2)

    assert shown(done.stdout + done.stderr, NEVER) == [], done
