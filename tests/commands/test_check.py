"""`headwater check`: one line a thing, and nothing is changed without --create."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from consumers.base.errors import ConfigError
from consumers.base.records import Outgoing, Partition, TransactionRules
from consumers.cli import main
from consumers.commands.check import check
from consumers.commands.run import run
from consumers.config import load
from consumers.service.runner import Runner
from consumers.transports import open_log
from consumers.transports.sqlite.log import SqliteLog
from tests.topics import cut, remake

CONFIG = """
name = "shop"
[input]
transport = "sqlite:log.db"
observations = "orders"
labels = "paid"
[model]
type = "GaussianNB"
"""
FEATURES = '[features]\nprice = "numeric"\n'


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def configure(text: str = CONFIG) -> Path:
    path = Path("shop.toml")
    path.write_text(text)
    return path


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_file_of_a_token_that_others_can_read_is_a_note(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With what to do; a file that only its owner and group can read is none."""
    text = f'{CONFIG}[serve]\nread_token = "${{file:read}}"\nwrite_token = "${{file:write}}"\n'
    for name, mode in (("read", 0o644), ("write", 0o640)):
        Path(name).write_text(name * 5)
        Path(name).chmod(mode)
    check(configure(text), create=True)
    before = [line for line in lines(capsys) if "secrets" in line]
    Path("read").chmod(0o600)
    check(configure(text))

    assert before == [
        "note     secrets: every user of this machine can read read, which [serve] read_token "
        "names; chmod 600 it"
    ]
    assert not any("secrets" in line for line in lines(capsys))


def test_start_warns_of_a_file_of_a_token_that_others_can_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the log, where the operator looks."""
    Path("read").write_text("read" * 5)
    Path("read").chmod(0o604)
    path = configure(
        f'{CONFIG}{FEATURES}[serve]\nread_token = "${{file:read}}"\n[http]\nenabled = false\n'
    )
    check(path, create=True)
    run(path, drain=True)

    line = "every user of this machine can read read, which [serve] read_token names; chmod 600 it"
    assert line in capsys.readouterr().err


def test_missing_topics_are_one_line_each_and_no_log_is_made(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Looking leaves no trace."""
    with pytest.raises(ConfigError, match=r"2 things are wrong with shop\.toml") as caught:
        check(configure())

    assert caught.value.exit_code == 2
    assert [line for line in lines(capsys) if line.startswith("wrong")] == [
        "wrong    [input] observations: no topic orders; "
        "`headwater check shop.toml --create` creates it",
        "wrong    [input] labels: no topic paid; `headwater check shop.toml --create` creates it",
    ]
    assert not Path("log.db").exists()


def test_create_shows_and_makes_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """Predictions spread like the observations; everything else has one partition."""
    log = open_log("sqlite:log.db")
    log.create_topic("orders", 3)

    check(configure(), create=True)

    shown = lines(capsys)
    assert "create   shop-predictions: 3 partitions" in shown
    assert "ok       [journal] topic: shop-journal, 1 partition" in shown
    assert not any(line.startswith("wrong") for line in shown)
    assert log.topics() == {
        "orders": 3,
        "paid": 1,
        "shop-predictions": 3,
        "shop-dead-letters": 1,
        "shop-journal": 1,
    }
    log.close()


def test_create_gives_each_shard_a_partition_of_every_input(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What it makes passes its own check."""
    check(configure(CONFIG + FEATURES + "[scale]\nshards = 2\n"), create=True)

    shown = lines(capsys)
    for topic in ("orders", "paid", "shop-predictions", "shop-journal"):
        assert f"create   {topic}: 2 partitions" in shown
    assert "create   shop-dead-letters: 1 partition" in shown
    assert "ok       journal: shard 1 empty: the service has not run yet" in shown


def test_create_makes_labels_of_as_many_partitions_as_observations(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Several shards need both alike, however many the observations have."""
    with closing(open_log("sqlite:log.db")) as log:
        log.create_topic("orders", 6)

    check(configure(CONFIG + FEATURES + "[scale]\nshards = 2\n"), create=True)

    assert "create   paid: 6 partitions" in lines(capsys)


def test_create_again_makes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """It may stand in a start script."""
    check(configure(), create=True)
    capsys.readouterr()

    check(configure(), create=True)

    assert not any(line.startswith("create") for line in lines(capsys))


def test_own_topics_of_the_embedded_log_may_be_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`headwater run` makes them, so this is right."""
    log = open_log("sqlite:log.db")
    log.create_topic("orders", 1)
    log.create_topic("paid", 1)
    log.close()

    check(configure())

    assert (
        "note     [journal] topic: no topic shop-journal yet; `headwater run` creates it"
        in lines(capsys)
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            '"GaussianNB"',
            '"GaussianNB"\nparameters = {var_smoothing = -1}',
            "wrong    model: [model] GaussianNB: var_smoothing must be a number from 0 to 1e100, "
            "got -1",
        ),
        (
            '"GaussianNB"',
            '"GaussianNB"\nparameters = {alpha = 1}',
            "wrong    model: [model] GaussianNB: ",
        ),
        (
            '[model]\ntype = "GaussianNB"',
            '[features]\ncar = "categorical"\n[model]\ntype = "CategoricalNB"\n'
            "bins = {edges = {car = [1]}}",
            "wrong    model: [model] CategoricalNB: bins edges: 'car' is not a numeric field",
        ),
        (
            '"GaussianNB"',
            '"MultinomialNB"\nmax_state_bytes = "1MiB"',
            "wrong    model: [model] max_state_bytes = 1,048,576 holds 0 classes",
        ),
        (
            '"GaussianNB"',
            '"river:tree.HoeffdingTreeKlassifier"',
            "wrong    model: ",
        ),
        (
            '"GaussianNB"',
            '"KNNClassifier"\n[output]\nexplain = 5',
            "wrong    model: [output] explain: KNNClassifier cannot explain predictions",
        ),
        (
            '"GaussianNB"',
            '"river:tree.HoeffdingTreeClassifier"\n[output]\nexplain = 5',
            "wrong    model: [output] explain: river:tree.HoeffdingTreeClassifier cannot explain",
        ),
        (
            "[model]",
            '[snapshots]\ndirectory = "shop.toml/x"\n[model]',
            "wrong    snapshots: shop.toml is not a directory; change [snapshots] directory",
        ),
        ("sqlite:log.db", "sqlite:shop.toml", "wrong    transport: "),
        (
            "sqlite:log.db",
            "sqlite:gone/log.db",
            "wrong    transport: expected a directory for sqlite:gone/log.db, but 'gone' is not",
        ),
    ],
)
def test_each_thing_that_is_wrong_is_one_line(
    old: str, new: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """All are shown, not only the first."""
    with pytest.raises(ConfigError):
        check(configure(CONFIG.replace(old, new)))

    assert sum(line.startswith(expected) for line in lines(capsys)) == 1


def test_fields_that_the_model_does_not_use_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    """They are declared, and change nothing."""
    features = '[features]\nage = "numeric"\njob = "categorical"\nregion = "categorical"\n[model]'
    check(configure(CONFIG.replace("[model]", features)), create=True)

    shown = lines(capsys)
    assert "ok       features: 3 declared" in shown
    assert "note     features: GaussianNB does not use job, region (categorical)" in shown


def test_what_is_decided_watched_and_promoted_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A section that is silently there looks like one that is not read."""
    more = """
[decision]
losses.lend = {pays = 0, defaults = 10}
losses.refuse = {pays = 1, defaults = 0}
reject = 0.5
[drift]
action = "forget"
detectors = [
    {on = "error", type = "ADWIN"},
    {on = "score", type = "KSWIN", alpha = 0.0001, action = "alert"},
    {on = "feature:amount", type = "ADWIN", action = "alert"},
]
[promotion]
rule = "e_value"
"""
    rivals = "".join(
        f'[[challenger]]\nname = "{name}"\ntype = "GaussianBayes"\n' for name in ("a", "b")
    )
    check(configure(CONFIG + more + rivals), create=True)
    shown = lines(capsys)
    check(configure(CONFIG + more))
    alone = lines(capsys)
    check(configure())
    plain = lines(capsys)

    assert "ok       decision: lend, refuse, or reject at 0.5" in shown
    assert "ok       drift: ADWIN on error: forget" in shown
    assert "ok       drift: KSWIN on score: alert" in shown
    note = "note     drift: ADWIN on feature:amount: its bound holds for 0 to 1; "
    assert any(line.startswith(note) for line in shown)
    assert "ok       promotion: at an e-value of 40, 20 for each of 2 challengers" in shown
    assert "note     promotion: there is no [[challenger]] to promote" in alone
    assert not [line for line in plain if line.split()[1] in ("decision:", "drift:", "promotion:")]


def test_changed_model_is_a_matter_of_the_journal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The broker is right, and so is everything else."""
    features = '[features]\nage = "numeric"\n[model]'
    text = CONFIG.replace("[model]", features)
    path = configure(text)
    check(path, create=True)
    config = load(path)
    with closing(open_log(config.input.transport)) as log:
        Runner(config, log, threading.Event(), drain=True).run()
    capsys.readouterr()

    with pytest.raises(ConfigError, match="1 thing is wrong"):
        check(configure(text.replace("GaussianNB", "GaussianBayes")))

    [wrong] = [line for line in lines(capsys) if line.startswith("wrong")]
    assert wrong.startswith("wrong    journal: the journal shop-journal belongs to another")


def test_lost_journal_is_told_before_and_by_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Whether its topic is there already or not; `--new-journal` begins it, on purpose."""
    check(configure(CONFIG + FEATURES), create=True)
    with closing(open_log("sqlite:log.db")) as log:
        log.append([Outgoing("orders", b"1", b'{"id": "1", "price": 2}')])
    run(configure(f"{CONFIG}{FEATURES}[http]\nenabled = false"), drain=True)
    renamed = configure(f'{CONFIG}{FEATURES}[journal]\ntopic = "books"\n[http]\nenabled = false')
    for create in (False, True):
        lines(capsys)
        with pytest.raises(ConfigError, match="1 thing is wrong"):
            check(renamed, create=create)
        (wrong,) = (line for line in lines(capsys) if line.startswith("wrong"))
        assert wrong.startswith("wrong    journal: the journal books[0] of shop is empty, but the")
    with pytest.raises(ConfigError, match="has run before"):
        run(renamed, drain=True)
    run(renamed, drain=True, new_journal=True)
    check(renamed)

    with closing(open_log("sqlite:log.db")) as log:
        assert log.end_offsets([Partition("shop-predictions", 0)]).popitem()[1] == 2


def test_shortened_journal_is_told_before_and_by_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`check` said ok, and the run predicted what it had predicted."""
    path = configure(f"{CONFIG}{FEATURES}[http]\nenabled = false")
    check(path, create=True)
    with closing(open_log("sqlite:log.db")) as log:
        log.append([Outgoing("orders", b"1", b'{"id": "1", "price": 2}')])
        run(path, drain=True)
        lines(capsys)
        cut(log, Partition("shop-journal", 0), 1)
        with pytest.raises(ConfigError, match="1 thing is wrong"):
            check(path)
        (wrong,) = (line for line in lines(capsys) if line.startswith("wrong"))
        assert wrong.startswith(
            "wrong    journal: the journal shop-journal[0] of shop has lost its"
        )
        with pytest.raises(ConfigError, match="has lost its newest records"):
            run(path, drain=True)

        assert log.end_offsets([Partition("shop-predictions", 0)]).popitem()[1] == 1


def test_lost_log_is_reported_while_its_snapshots_are_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By `check` and by `run`, before either makes the log, or a topic in it, again."""
    path = configure(CONFIG + FEATURES + "[http]\nenabled = false")
    check(path, create=True)
    with closing(open_log("sqlite:log.db")) as log:
        log.append([Outgoing("orders", b"1", b'{"id": "1", "price": 2}')])
    run(path, drain=True)
    for file in Path().glob("log.db*"):
        file.unlink()
    lines(capsys)
    for there in (False, True):
        if there:
            with closing(open_log("sqlite:log.db")) as log:
                log.create_topic("orders", 1)
        with pytest.raises(ConfigError, match=r"(3|2) things are wrong"):
            check(path)
        (wrong,) = (line for line in lines(capsys) if line.startswith("wrong    journal:"))
        assert "the service has run before (a snapshot at journal position" in wrong
        with pytest.raises(ConfigError, match=r"has run before \(a snapshot at"):
            run(path, drain=True)
        assert Path("log.db").exists() == there

    with closing(open_log("sqlite:log.db")) as log:
        assert list(log.topics()) == ["orders"]


@pytest.mark.parametrize("there", [None, "orders"])
def test_run_looks_at_its_inputs_before_it_makes_anything(there: str | None) -> None:
    """A run without inputs leaves no log behind, and no topic in one."""
    path = configure(CONFIG + FEATURES + "[http]\nenabled = false")
    if there is not None:
        with closing(open_log("sqlite:log.db")) as log:
            log.create_topic(there, 1)
    before = {file.name for file in Path().iterdir()}

    with pytest.raises(ConfigError, match=r"no topic .*paid on .*check shop\.toml --create"):
        run(path, drain=True)

    assert {file.name for file in Path().iterdir()} == before
    if there is not None:
        with closing(open_log("sqlite:log.db")) as log:
            assert list(log.topics()) == [there]


def test_input_that_was_made_again_is_told_before_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`check` said ok, and the run passed over its records."""
    path = configure(CONFIG + FEATURES)
    settings = load(path)
    with closing(open_log(settings.input.transport)) as log:
        for topic in settings.topics.values():
            log.create_topic(topic, 1)
        log.append([Outgoing("orders", b"%d" % i, b'{"price": 1}', 1) for i in range(5)])
        Runner(settings, log, threading.Event(), drain=True).run()
        check(path)
        assert "ok       inputs: the logs that were consumed" in lines(capsys)
        remake(log, "orders")
        log.append([Outgoing("orders", b"%d" % i, b'{"price": 2}', 1) for i in range(9)])
    with pytest.raises(ConfigError, match="1 thing is wrong"):
        check(path)

    (wrong,) = (line for line in lines(capsys) if line.startswith("wrong"))
    assert "orders has id" in wrong
    assert "--accept-new-topic" in wrong


def test_run_takes_one_answer_for_changed_inputs() -> None:
    """They say the opposite of each other."""
    with pytest.raises(ConfigError, match="exclude each other"):
        run(configure(), accept_new_topic=True, same_topic=True)


def test_service_without_labels_is_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    """Predicting without ever learning is allowed, and hardly ever meant."""
    check(configure(CONFIG.replace('labels = "paid"', "")), create=True)

    assert any("will never learn" in line for line in lines(capsys))


@pytest.mark.parametrize(
    ("rules", "noted", "fine"),
    [
        (None, [], False),
        (TransactionRules(False, 0), ["before 3.6", "transaction.version is 0"], False),
        (TransactionRules(True, 1), ["transaction.version is 1"], False),
        (TransactionRules(True, 2), [], True),
    ],
)
def test_broker_that_can_tear_a_transaction_is_named(
    rules: TransactionRules | None,
    noted: list[str],
    fine: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the transactions that it reports; a log that writes each in one call reports none."""
    monkeypatch.setattr(SqliteLog, "transaction_rules", lambda log: rules)
    check(configure(), create=True)
    shown = [line for line in lines(capsys) if " transactions: " in line]
    notes = [line for line in shown if line.startswith("note ")]

    assert len(notes) == len(noted)
    assert all(part in line for part, line in zip(noted, notes, strict=True))
    assert any(line.startswith("ok ") for line in shown) == fine


@pytest.mark.kafka
def test_missing_topics_of_a_broker_are_shown_then_made(
    kafka_bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On Kafka the service's own topics must exist too."""
    text = CONFIG.replace("sqlite:log.db", f"kafka://{kafka_bootstrap}").replace("shop", "checked")
    path = configure(text.replace("orders", "checked-orders").replace("paid", "checked-paid"))

    with pytest.raises(ConfigError, match="5 things are wrong"):
        check(path)
    check(path, create=True)

    assert "ok       [journal] topic: checked-journal, 1 partition" in lines(capsys)


@pytest.mark.parametrize(
    ("more", "noted"),
    [("", False), ("max_classes = 256\n", True), ('max_state_bytes = "80MiB"\n', True)],
)
def test_room_for_classes_is_noted_where_it_may_matter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, noted: bool
) -> None:
    """Not on each table of two classes: nearly every `auto` has room for fewer than 256."""
    config = tmp_path / "shop.toml"
    config.write_text(
        f'name = "shop"\n[input]\ntransport = "sqlite:{tmp_path}/log.db"\nobservations = "v"\n'
        f'label = "y"\n[features]\na = "numeric"\nb = "categorical"\n[model]\ntype = "auto"\n{more}'
    )

    main(["check", str(config)])
    assert ("max_state_bytes has room for" in capsys.readouterr().out) is noted


@pytest.mark.parametrize("on_disk", [False, True])
def test_room_for_keys_is_shown(on_disk: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """How many get a model, and how many of them are in memory."""
    model = 'per = "shop"\nmax_classes = 2\nmax_state_bytes = "1MiB"\nmax_keys = 50_000\n'
    more = "keys_on_disk = true\n[serve]\nenabled = false\n" if on_disk else ""
    text = CONFIG.replace('type = "GaussianNB"\n', model + more)
    check(configure(text + '[features]\nshop = "categorical"\nprice = "numeric"\n'), create=True)

    (line,) = [line for line in lines(capsys) if " keys: " in line]
    room = line.split("for up to ")[1]
    if on_disk:
        assert room.startswith("50,000 values, ")
        in_memory = int(room.split("values, ")[1].split(" ")[0].replace(",", ""))
        assert 1000 < in_memory < 10_000
    else:
        assert 1000 < int(room.split(" ")[0].replace(",", "")) < 10_000
