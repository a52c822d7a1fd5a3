"""What the loop says to people."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from consumers.base.records import Partition, Uncommitted
from consumers.shard.views import Committed, DriftAlarm, DriftView, Promoted, RiskView, ShardView
from consumers.telemetry.event_logger import EventLogger
from consumers.telemetry.optional import budget_sentence
from stream.decision import Budget, BudgetView
from stream.evaluate.quality import QualityView, Scores


def view(**changed) -> ShardView:
    """A view with something of everything."""
    scores = {"all": Scores(90, 0.9, 0.3, {"majority": 0.6, "no_change": 0.5})}
    quality = QualityView(("a",), np.zeros((1, 1), dtype=np.int64), scores, 1)
    values = {
        "observations": 100,
        "learned": 90,
        "labels": {"late": 3},
        "dead_letters": {"no_id": 7},
        "pending": 4,
        "early": 0,
    } | changed
    return ShardView(
        name="n",
        model="m",
        shard=0,
        observations=values["observations"],
        predictions=100,
        learned=values["learned"],
        labels=values["labels"],
        dead_letters=values["dead_letters"],
        overflows={},
        pending=values["pending"],
        early=values["early"],
        quality=quality,
    )


def commit(**changed) -> Committed:
    """A commit with a dead letter."""
    told = {"labels": {}, "rejected": {"no_id": 1}, "details": {"no_id": "x[0] offset 5: no id"}}
    return Committed(
        records=10, predictions=9, learned=0, seconds=0.1, position=3, **(told | changed)
    )


def test_dead_letter_is_told_once_a_minute_a_reason(caplog) -> None:
    """The first with its place and cause, then the total at most once a minute."""
    caplog.set_level(logging.INFO, logger="headwater")
    times = iter([0.0, 1.0, 1.0, 2.0, 2.0, 62.0, 62.0])
    event_logger = EventLogger(lambda: next(times))

    for _ in range(3):
        event_logger.committed(commit(), view())

    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert told == ["dead letter (no_id): x[0] offset 5: no id; 7 so far"] * 2


def test_bad_values_are_told_with_the_field_that_has_most(caplog) -> None:
    """Once a minute, and only if there are more."""
    caplog.set_level(logging.INFO, logger="headwater")
    now = [0.0]
    event_logger = EventLogger(lambda: now[0])
    quiet = commit(details={}, rejected={})

    for second, counts in ((0, (0, 0)), (1, (1, 0)), (2, (1, 4)), (62, (1, 4)), (63, (2, 1500))):
        now[0] = float(second)
        shown = replace(view(), bad_values=dict(zip("ab", counts, strict=True)))
        event_logger.committed(quiet, shown)

    told = [r.getMessage() for r in caplog.records if "taken as missing" in r.getMessage()]
    assert told == [
        "1 bad value taken as missing so far, 1 of them in 'a' ([values] on_bad_value)",
        "5 bad values taken as missing so far, 4 of them in 'b' ([values] on_bad_value)",
    ]


def test_drift_is_told_with_its_place_and_what_was_done(caplog) -> None:
    """Once a minute a detector; another detector's alarm is told beside it."""
    caplog.set_level(logging.INFO, logger="headwater")
    event_logger = EventLogger(lambda: 0.0)
    where = Partition("pages", 1)
    alarm = DriftAlarm("DDM", "error", "forget", 0.1, 0.31234, 5, 90, where, 17)
    other = alarm._replace(on="feature:a", detector="ADWIN", action="alert")

    watched = replace(view(), drift=DriftView("m", (), {}, (), keep=1500))

    event_logger.committed(commit(details={}, alarms=(alarm, alarm, other)), watched)
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert told == [
        "drift: DDM on error from 0.1 to 0.3123 at pages[1] offset 17; "
        "the model restarts with the last records it learned, at most 1,500",
        "drift: ADWIN on feature:a from 0.1 to 0.3123 at pages[1] offset 17",
    ]


def test_promotion_is_told_with_the_record_that_decided_it(caplog) -> None:
    """Who reads the journal or the predictions then knows where to look."""
    promoted = (Promoted("joint", 41.26, Partition("paid", 2), 1717),)

    EventLogger(lambda: 0.0).committed(commit(details={}, promoted=promoted), view())

    assert caplog.messages == ["joint is champion after paid[2] offset 1717: e-value 41.3"]


def test_labels_that_came_to_nothing_are_told(caplog) -> None:
    """Late labels are no error, but someone should look."""
    caplog.set_level(logging.INFO, logger="headwater")
    event_logger = EventLogger(lambda: 0.0)

    event_logger.committed(commit(labels={"late": 1, "joined": 5}, details={}), view())

    assert caplog.messages == ["3 labels came after their observation had expired"]


def test_trouble_counts_one_and_thousands_as_prose_does(caplog) -> None:
    """One is no plural, and thousands are separated as everywhere else."""
    for n in (1, 1500):
        counted = replace(view(), labels={"duplicate_observation": n})
        event = commit(labels={"duplicate_observation": 1}, details={})
        EventLogger(lambda: 0.0).committed(event, counted)

    assert caplog.messages == [
        "1 observation repeats an id: predicted, not learned again",
        "1,500 observations repeat an id: predicted, not learned again",
    ]


def test_end_tells_how_it_stood(caplog) -> None:
    """Accuracy beside the better baseline, and what is left over."""
    caplog.set_level(logging.INFO, logger="headwater")

    EventLogger(lambda: 0.0).ended("stopped", 12, view())

    assert caplog.messages == [
        "stopped at journal position 12: 100 observations, 90 learned, accuracy 90.0% "
        "(majority 60.0%), 7 dead letters, 4 wait for labels"
    ]


def test_end_tells_how_many_records_were_ignored(caplog) -> None:
    """Else updates and tombstones of a table count as observations, and nothing says why."""
    caplog.set_level(logging.INFO, logger="headwater")

    EventLogger(lambda: 0.0).ended("drained", 12, replace(view(), read_otherwise={"ignored": 1200}))

    assert caplog.messages[0].endswith("7 dead letters, 1,200 ignored, 4 wait for labels")


def test_end_tells_what_decisions_cost(caplog) -> None:
    """Beside what doing always the same would have cost."""
    caplog.set_level(logging.INFO, logger="headwater")
    risk = RiskView(0.25, 80, 10, {"lend": 60, "refuse": 30}, ("refuse", 0.5))

    EventLogger(lambda: 0.0).ended("drained", 12, replace(view(), risk=risk))
    EventLogger(lambda: 0.0).ended("drained", 12, replace(view(), risk=RiskView(None, 0, 0)))

    costly, none = caplog.messages
    assert (
        "mean loss 0.25 per decision (always 'refuse': 0.5), lend 60, refuse 30, "
        "rejected 10 (10.0%)"
    ) in costly
    assert "loss" not in none


def test_budget_tells_how_far_its_evidence_is(caplog) -> None:
    """At the start, when flagging starts or ends, and at the end of the run."""
    caplog.set_level(logging.INFO, logger="headwater")
    rule = Budget("spam", 0.001)
    early = replace(view(), budget=BudgetView(rule, 1200, 2018, None, 0, 0, 0))
    flagging = replace(view(), budget=BudgetView(rule, 3218, 0, 0.75, 4, 1, 2))
    logger = EventLogger(lambda: 0.0)
    for shown in (early, early, flagging, flagging, early):
        logger.committed(Committed(1, 1, 1, {}, {}, 0.1, 1), shown)
    logger.ended("drained", 12, flagging)

    missing = (
        "nothing is flagged as 'spam' yet: 1,200 labelled records of other labels, at least 2,018 "
        "more are needed"
    )
    flags = (
        "flagged as 'spam' from a probability of 0.75: 4, 2 withheld; 1 of 3,218 labelled records "
        "of other labels were flagged"
    )
    assert caplog.messages[:3] == [missing, flags, missing]
    assert flags in caplog.messages[3]


def test_budget_says_why_every_record_is_unsure() -> None:
    """How many labels there are, and how many are needed."""
    rule = Budget("spam", 0.001, min_learned=20, unsure=0.5)
    few = BudgetView(rule, 0, 3218, None, 0, 0, 0, 12, (3, 9))
    enough = BudgetView(rule, 3218, 0, 0.75, 4, 1, 0, 12, (20, 3218))

    assert budget_sentence(few, ["spam", "ham"]) == (
        "every record is unsure until 20 labels of 'spam' and 20 of others are learned: 3 and 9 "
        "so far"
    )
    assert "0.75: 4, 12 unsure; 1 of 3,218" in budget_sentence(enough, ["spam", "ham"])


def test_budget_says_that_its_label_has_not_come(caplog) -> None:
    """A typo in [decision] asked for more labels of others for ever."""
    caplog.set_level(logging.INFO, logger="headwater")
    budget = BudgetView(Budget("spm", 0.001), 0, 3218, None, 0, 0, 0)
    for classes in ((), ("spam", "ham"), tuple(range(6))):
        quality = replace(view().quality, classes=classes)
        shown = replace(view(), budget=budget, quality=quality)
        EventLogger(lambda: 0.0).committed(Committed(1, 1, 1, {}, {}, 0.1, 1), shown)

    found = [line for line in caplog.messages if "flagged" in line]
    start = "nothing is flagged as 'spm' yet: this label has not been learned; "
    assert found == [
        start + "no label was learned",
        start + "the labels so far are 'spam', 'ham'",
        start + "the labels so far are '0', '1', '2', '3', '4', …",
    ]


def test_end_tells_the_most_frequent_actions_only(caplog) -> None:
    """Where the labels are the actions there may be hundreds."""
    caplog.set_level(logging.INFO, logger="headwater")
    risk = RiskView(0.25, 80, 0, {f"a{i}": i for i in range(8)}, ("a7", 0.5))

    EventLogger(lambda: 0.0).ended("drained", 12, replace(view(), risk=risk))

    assert "), a7 7, a6 6, a5 5, a4 4, a3 3, 3 others, rejected 0 (0.0%)" in caplog.text


def known(*labels) -> ShardView:
    """A view of a model that has learned these labels."""
    return replace(view(), quality=replace(view().quality, classes=labels))


def test_label_that_losses_do_not_name_is_told_once(caplog) -> None:
    """At the first commit where it is learned, with the name that may be meant."""
    caplog.set_level(logging.WARNING, logger="headwater")
    event_logger = EventLogger(lambda: 0.0, losses={"pay", "defaults", "true"})
    for labels in (("defaults",), ("defaults", "pays"), ("defaults", "pays", 7), (True, "pays", 7)):
        event_logger.committed(commit(details={}), known(*labels))

    assert caplog.messages == [
        "label 'pays' is not named in [decision] losses, so it does not affect the decision: "
        "did you mean 'pay'?",
        "label '7' is not named in [decision] losses, so it does not affect the decision: "
        "add its costs",
    ]


def test_label_without_a_prior_is_told_once(caplog) -> None:
    """It has prior 0: no evidence brings it back."""
    caplog.set_level(logging.WARNING, logger="headwater")
    event_logger = EventLogger(lambda: 0.0, priors={"spam": 0.3, "false": 0.7})
    for _ in range(2):
        event_logger.committed(commit(details={}), known("spam", "Spam", False))

    assert caplog.messages == [
        "label 'Spam' has no prior in [model] priors and is never predicted: did you mean 'spam'?"
    ]


def test_labels_that_mostly_find_nothing_are_an_alarm(caplog) -> None:
    """Other ids, or with several shards other keys: nothing would be learned, and nobody told."""
    event_logger = EventLogger(lambda: 0.0)
    event_logger.committed(commit(details={}), view(labels={"joined": 499}, early=490))
    quiet = caplog.text
    event_logger.committed(commit(details={}), view(labels={"joined": 499}, early=501))

    assert "no observation of their id" not in quiet
    assert "501 of 1,000 labels have found no observation of their id in shard 0" in caplog.text


def test_breaker_is_told_when_it_opens_and_when_it_closes(caplog) -> None:
    """Once each, with how many dead letters there were."""
    caplog.set_level(logging.INFO, logger="headwater")
    event_logger = EventLogger(lambda: 0.0)
    commits = [(False, 400), (True, 1000), (True, 700), (False, 249)]

    for held_back, dead in commits:
        told = replace(view(), held_back=held_back, recent_dead_letters=dead)
        event_logger.committed(commit(rejected={}, details={}), told)

    said = [r.getMessage() for r in caplog.records if "learning" in r.getMessage()]
    assert [line.split(" of the last")[0] for line in said] == [
        "learning has stopped, predictions continue: 1,000",
        "learning resumes: 249",
    ]


def test_open_transaction_of_a_producer_is_reported_once_it_is_old(caplog) -> None:
    """The oldest by name, the others by number, at most once a minute; a young one is nothing."""
    now = [0.0]
    event_logger = EventLogger(lambda: now[0])
    young = {Partition("obs", 1): Uncommitted(7, 3, 59.0)}
    old = young | {
        Partition("obs", 0): Uncommitted(30, 200, 61.0),
        Partition("ans", 2): Uncommitted(1, 5, 60.5),
    }

    event_logger.uncommitted({})
    event_logger.uncommitted(young)
    quiet = list(caplog.messages)
    for now[0] in (1.0, 30.0, 61.0):
        event_logger.uncommitted(old)

    assert quiet == []
    assert caplog.messages == 2 * [
        "obs[0] is not read beyond offset 30: a transaction of its producer has been open for "
        "61 s, 200 records wait after it (and 1 more partition); end it, or find it by "
        "kafka-transactions.sh find-hanging"
    ]
