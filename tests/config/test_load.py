"""The TOML file: what is accepted, and the one line about what is not."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import pytest

from consumers.base.errors import ConfigError
from consumers.config import Config, load, parse

SMALLEST = """
name = "shop"
[input]
transport = "sqlite:log.db"
observations = "orders"
[model]
type = "GaussianNB"
"""


def problem(text: str) -> str:
    """The message about a wrong file."""
    with pytest.raises(ConfigError) as caught:
        parse(text, source="shop.toml")
    return str(caught.value)


def config(extra: str) -> Config:
    return parse(SMALLEST + extra)


def test_smallest_file_gets_its_topics_from_its_name() -> None:
    """Only what cannot be guessed is required; the rest has defaults."""
    shop = config("")

    assert shop.topics == {
        "[input] observations": "orders",
        "[output] predictions": "shop-predictions",
        "[output] dead_letters": "shop-dead-letters",
        "[journal] topic": "shop-journal",
    }
    assert shop.labels.horizon_ms == 7 * 86_400_000
    assert shop.declared_schema is None


def test_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    """A service finds its log and snapshots from any working directory."""
    (tmp_path / "shop.toml").write_text(SMALLEST)

    shop = load(tmp_path / "shop.toml")

    assert shop.input.transport == f"sqlite:{tmp_path}/log.db"
    assert shop.snapshots.directory == tmp_path / "headwater-state"


def test_absolute_path_stays() -> None:
    """Only relative paths are moved."""
    text = SMALLEST.replace("sqlite:log.db", "sqlite:/var/log.db")

    assert parse(text, directory=Path("/etc")).input.transport == "sqlite:/var/log.db"


def test_misspelt_key_is_one_line_naming_the_known_one() -> None:
    """The key that is missing for it is not told a second time."""
    text = SMALLEST.replace("observations", "observation")

    assert problem(text) == (
        "shop.toml: [input] observation: unknown key; did you mean 'observations'?"
    )


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("[htp]\n", "htp: unknown key; did you mean 'http'?"),
        ('[http]\nport = "80"', "[http] port: expected a whole number, got '80'"),
        ("[http]\nport = true", "[http] port: expected a whole number, got true"),
        ("[http]\nenabled = 1", "[http] enabled: expected true or false, got 1"),
        ("[http]\nport = 70000", "[http] port: expected at most 65,535, got 70,000"),
        ('[labels]\nhorizon = "soon"', "[labels] horizon: expected a duration such as"),
        ('[labels]\nhorizon = "0.1ms"', "got '0.1ms'; it must be between 1ms and 36500d"),
        ('[labels]\nhorizon = "36500.1d"', "got '36500.1d'; it must be between 1ms and"),
        ("[labels]\nhorizon = 7", "[labels] horizon: expected text, got 7"),
        ("[scale]\nshards = 0", "[scale] shards: expected at least 1, got 0"),
        ('[features]\nx = "float"', "[features] x: expected 'numeric', 'binary', 'categorical'"),
        ('[features]\nid = "numeric"', "[features]: 'id' is the id and never a feature"),
        ("[features]\n", "[features]: expected at least one field"),
        ('[output]\npredictions = "orders"', "[input] observations and [output] predictions are"),
        ('[output]\npredictions = "a b"', "[output] predictions: expected a topic name"),
        ('[telemetry]\nlog = "xml"', "[telemetry] log: expected 'text' or 'json', got 'xml'"),
        ("[input.id]\nx = 1", "[input] id: expected text, got a table"),
        ("trust_pickle = true", "trust_pickle is for river models only"),
        ('pipeline = ["preprocessing.StandardScaler"]', "pipeline is for river models only"),
        ('max_state_bytes = "1 GB"', "[model] max_state_bytes: expected a size such as"),
        ("parameters = {alpha = inf}", "[model] parameters: expected a finite number"),
    ],
)
def test_wrong_value_is_one_line_with_key_expectation_and_value(extra: str, expected: str) -> None:
    """Each line begins with the file and says where, what was expected and what came."""
    message = problem(SMALLEST + extra)

    assert "\n" not in message
    assert message.startswith("shop.toml: ")
    assert expected in message


ON_DISK = 'per = "t"\nkeys_on_disk = true\n'
NO_REQUESTS = "[serve]\nenabled = false\n"


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (ON_DISK, "set [serve] enabled = false"),
        (
            ON_DISK + NO_REQUESTS + '[snapshots]\ncopy_to = "file:///mnt"\n',
            "copy_to: a copy has no",
        ),
        (ON_DISK + NO_REQUESTS + "[model.bins]\n", "excludes bins"),
        (
            ON_DISK + NO_REQUESTS + '[snapshots]\nkey = "${env:HEADWATER_TEST_PASSWORD}"\n',
            "the rows of keys are not signed",
        ),
        (
            ON_DISK
            + NO_REQUESTS
            + '[drift]\naction = "reset"\ndetectors = [{on = "error", type = "ADWIN"}]\n',
            "a [drift] action that restarts the model",
        ),
        (
            'experts = ["MixedNB", {type = "PerKeyNB", keys_on_disk = true}]\n',
            "an expert of [model]: keys_on_disk is a key of [model] only",
        ),
        (
            '[[challenger]]\nname = "rival"\ntype = "PerKeyNB"\nkeys_on_disk = true\n',
            "[[challenger]] rival: keys_on_disk is a key of [model] only",
        ),
    ],
)
def test_keys_on_disk_exclude_what_needs_all_keys(
    extra: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one sentence, before the service starts."""
    monkeypatch.setenv("HEADWATER_TEST_PASSWORD", "a secret of many letters")
    assert expected in problem(SMALLEST + extra)


def test_keys_on_disk_without_requests() -> None:
    """Without a page there are no requests either."""
    for off in (NO_REQUESTS, "[http]\nenabled = false\n"):
        assert parse(SMALLEST + ON_DISK + off).model.parameters["keys_on_disk"] is True


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("sqlite:log.db", "redis://x", "[input] transport: expected"),
        ("sqlite:log.db", "kafka://broker", "[input] transport: expected"),
        ("sqlite:log.db", "sqlite:", "[input] transport: expected"),
        ('"shop"', '"a b"', "name: expected up to 100 letters"),
        ('"shop"', "3", "name: expected text, got 3"),
        ("GaussianNB", "gausian_nb", "did you mean 'GaussianNB'?"),
        ("GaussianNB", "river:os.system", "[model] type: expected"),
        ("orders", "..", "[input] observations: expected a topic name"),
        ('name = "shop"', "name = ", "not valid TOML: Invalid value (at line 2"),
    ],
)
def test_wrong_required_value_is_one_line(old: str, new: str, expected: str) -> None:
    """So are the keys without a default."""
    message = problem(SMALLEST.replace(old, new))

    assert "\n" not in message
    assert expected in message


def test_key_of_another_section_is_told_its_place() -> None:
    """A key at the wrong place is not only unknown."""
    assert problem("port = 80\n" + SMALLEST) == (
        "shop.toml: port: unknown key; it belongs in [http]"
    )


def test_value_where_a_section_belongs_is_one_line() -> None:
    """A section is a table."""
    assert problem("commit = 3\n" + SMALLEST) == (
        "shop.toml: [commit]: expected a section (a TOML table), got 3"
    )


def test_every_problem_gets_its_own_line() -> None:
    """One check finds all that is wrong."""
    message = problem(SMALLEST + '[http]\nport = "x"\n[labels]\nhorizon = "x"\n')

    assert len(message.splitlines()) == 2


def test_missing_file_says_how_to_write_one(tmp_path: Path) -> None:
    """No traceback for a wrong path."""
    with pytest.raises(
        ConfigError, match=r"no config file .*none\.toml; write one with `headwater"
    ):
        load(tmp_path / "none.toml")


def test_directory_and_bytes_that_are_no_text_are_one_line(tmp_path: Path) -> None:
    """Whatever is given instead of a file."""
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")

    with pytest.raises(ConfigError, match="cannot read config file"):
        load(tmp_path)
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(tmp_path / "x.toml")


def test_kafka_with_several_servers_is_kept() -> None:
    """The URL goes to the transport as it is."""
    url = "kafka://a:9092,[::1]:9093"

    assert parse(SMALLEST.replace("sqlite:log.db", url)).input.transport == url


def test_nested_feature_tables_become_dotted_names_in_sorted_order() -> None:
    """`a.b = …` is a table in TOML and a path here; the order in the file is no matter."""
    shop = config('[features]\nz = "text"\na.b = "numeric"\n"a.c" = "binary"\n')

    assert shop.declared_schema is not None
    assert [(f.name, f.kind) for f in shop.declared_schema.fields] == [
        ("a.b", "numeric"),
        ("a.c", "binary"),
        ("z", "text"),
    ]


def test_sizes_and_times_are_read_as_people_write_them() -> None:
    """Text with a unit, and TOML's own times."""
    text = SMALLEST.replace("[model]", "start = 2024-03-01T02:00:00+02:00\n[model]")
    shop = parse(text + 'max_state_bytes = "2MiB"')

    assert shop.model.max_state_bytes == 2 * 2**20
    assert shop.input.start == "2024-03-01T00:00:00Z"
    assert shop.input.start_ms == 1_709_251_200_000


def test_start_at_an_end_has_no_time() -> None:
    """Earliest and latest are positions."""
    assert config("").input.start_ms is None


def test_nothing_changes_after_loading() -> None:
    """A running service cannot drift from its file."""
    with pytest.raises(ValueError, match="frozen"):
        config("").http.port = 1


class TestSecrets:
    """[kafka] values that stand elsewhere."""

    def test_environment_and_file_are_read_and_never_shown(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The client gets the text, a printed configuration does not."""
        monkeypatch.setenv("BROKER_USER", "ann-of-acme")
        (tmp_path / "password").write_text("hunter2\n")
        (tmp_path / "shop.toml").write_text(
            SMALLEST + '[kafka]\nsasl_plain_username = "${env:BROKER_USER}"\n'
            'sasl_plain_password = "${file:password}"\nclient_id = "x"\n'
        )

        shop = load(tmp_path / "shop.toml")

        assert shop.kafka == {
            "sasl_plain_username": "ann-of-acme",
            "sasl_plain_password": "hunter2",
            "client_id": "x",
        }
        for shown in (repr(shop), str(shop), repr(shop.kafka)):
            assert "hunter2" not in shown
            assert "ann-of-acme" not in shown
        assert "hunter2" not in str(shop.identity())

    @pytest.mark.parametrize(
        "line",
        [
            'sasl_plain_password = "hunter2"',
            "sasl_plain_password = 2222222",
            'sasl_plain_password = "hunter2${env:HOME}"',
            'proxy_url = "socks5://ann:hunter2@proxy:1080"',
        ],
    )
    def test_password_in_the_clear_is_refused_and_not_shown(self, line: str) -> None:
        """A configuration file is committed and passed around."""
        message = problem(SMALLEST + f"[kafka]\n{line}")

        assert message == (
            f'shop.toml: [kafka] {line.split()[0]}: expected "${{env:NAME}}" or '
            '"${file:PATH}", got a secret in the clear; move it to a variable or file that only '
            "the service reads"
        )

    def test_variable_without_its_kind_is_told_what_to_write(self) -> None:
        """As a shell has it; the name is not repeated, for it may be a password after all."""
        assert problem(SMALLEST + '[kafka]\nsasl_plain_password = "${KAFKA_PW}"') == (
            'shop.toml: [kafka] sasl_plain_password: expected "${env:NAME}" or "${file:PATH}", got '
            "braces without either; write env: before the name of a variable"
        )

    def test_unset_variable_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One line with the key and the variable."""
        monkeypatch.delenv("NOBODY_SET_THIS", raising=False)

        assert problem(SMALLEST + '[kafka]\nsasl_plain_password = "${env:NOBODY_SET_THIS}"') == (
            "shop.toml: [kafka] sasl_plain_password: environment variable NOBODY_SET_THIS is not "
            "set; export it"
        )

    def test_faults_of_secrets_are_told_with_all_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else each start tells one more."""
        monkeypatch.delenv("NOBODY_SET_THIS", raising=False)
        secrets = '[kafka]\nsasl_plain_username = "${env:NOBODY_SET_THIS}"\n'
        secrets += 'sasl_plain_password = "hunter2"\n[commit]\nmax_records = 0\n'

        lines = problem(SMALLEST + secrets).splitlines()

        assert [line.split(":")[1] for line in lines] == [
            " [commit] max_records",
            " [kafka] sasl_plain_username",
            " [kafka] sasl_plain_password",
        ]

    def test_missing_secret_file_is_named(self) -> None:
        """One line with the key and the path."""
        message = problem(SMALLEST + '[kafka]\nsasl_plain_password = "${file:/no/such}"')

        assert message.startswith("shop.toml: [kafka] sasl_plain_password: no secret file /no/such")


class TestIdentity:
    """What the model depends on."""

    def test_transport_waits_and_pickling_are_no_part_of_it(self) -> None:
        """They change nothing that is learned."""
        a = parse(SMALLEST.replace("GaussianNB", "river:tree.HoeffdingTreeClassifier"))
        text = SMALLEST.replace("GaussianNB", "river:tree.HoeffdingTreeClassifier").replace(
            "sqlite:log.db", "kafka://a:1"
        )
        b = parse(text.replace("[model]", "max_wait_ms = 1\n[model]") + "trust_pickle = true")

        assert a.identity() == b.identity()

    @pytest.mark.parametrize(
        "extra",
        [
            "max_classes = 3",
            "parameters = {var_smoothing = 0.0}",
            '[features]\nx = "numeric"',
            '[labels]\nhorizon = "8d"',
        ],
    )
    def test_what_is_learned_from_and_how_is_part_of_it(self, extra: str) -> None:
        """A change under the same name has to be noticed."""
        assert config(extra).identity() != config("").identity()

    @pytest.mark.parametrize(
        "extra", ["[http]\nport = 0", "[commit]\nmax_records = 1", '[labels]\nhorizon = "168h"']
    )
    def test_what_does_not_matter_is_no_part_of_it(self, extra: str) -> None:
        """Equal durations are equal, however they are written."""
        assert config(extra).identity() == config("").identity()


@pytest.mark.parametrize("name", ["payments.csv", "my visits.jsonl"])
def test_records_given_as_a_configuration_are_named(tmp_path: Path, name: str) -> None:
    """The line says what the file is, and which command makes a configuration of it."""
    (tmp_path / name).write_text("id,amount\n1,2\n")

    with pytest.raises(ConfigError, match=r"a file of records by its name; `headwater init ") as e:
        load(tmp_path / name)
    assert "\n" not in str(e.value)


def test_named_pipe_without_a_writer_is_an_empty_file(tmp_path: Path) -> None:
    """A start that waits for one hears no signal."""
    os.mkfifo(tmp_path / "c.toml")
    with pytest.raises(ConfigError, match="name: required, but missing"):
        load(tmp_path / "c.toml")


def test_named_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """As of `headwater run <(envsubst < c.toml)`, whose text comes later."""
    text = 'name = "n"\ninput = {transport = "memory:n", observations = "o"}\n'
    read, write = os.pipe()
    with os.fdopen(write, "w") as file:
        thread = Thread(target=lambda: (file.write(text), file.close()))
        thread.start()
        assert load(Path(f"/dev/fd/{read}")).name == "n"
        thread.join()
    os.close(read)
