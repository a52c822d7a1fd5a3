"""What is watched, by which detector, and what an alarm does: values that can be journaled.

Two rules are equal when they raise the same alarms and do the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from stream.data.parameters import one_of, shown, whole
from stream.drift.detectors import DETECTORS, build
from stream.errors import SchemaError

__all__ = ["ACTING", "ANEW", "FEATURE", "MODEL", "Action", "DriftRule", "MonitorRule"]

Action = Literal["alert", "forget", "reset", "challenger"]
ANEW: tuple[Action, ...] = ("forget", "reset")  # after these a model begins anew
ACTING: tuple[Action, ...] = (*ANEW, "challenger")  # all but telling it
MODEL = ("error", "log_loss", "score")  # what the model says and how good it is
FEATURE = "feature:"
WORSE = ("error", "log_loss")  # a fall of these is what learning is for
MAX_MONITORS = 20
LONGEST_KEPT = 100_000


@dataclass(frozen=True, slots=True)
class MonitorRule:
    """One detector on one quantity.

    Parameters
    ----------
    on
        ``"error"``: 0 or 1 a scored prediction; ``"log_loss"``: -log(probability given to the
        true class), at most 36; ``"score"``: the largest probability of each prediction, labelled
        or not; ``"feature:NAME"``: a number of each observation, where it is there.
    type
        One of `DETECTORS`.
    parameters
        The detector's.
    action
        ``"alert"``: the alarm is told, and that is all. ``"forget"``: the model begins anew with
        the last records it learned, see `DriftRule`. ``"reset"``: it begins anew with nothing.
        ``"challenger"``: of several models the one that did best of late becomes champion, see
        `stream.contest.champion`.

    Raises
    ------
    SchemaError
        It makes no sense.

    Examples
    --------
    >>> str(MonitorRule("score", "KSWIN", {"alpha": 0.001}))
    'KSWIN on score'
    >>> MonitorRule("log_loss", "DDM")
    Traceback (most recent call last):
    stream.errors.SchemaError: DDM takes errors only, got on = 'log_loss'; use ADWIN, PageHinkley \
or KSWIN
    """

    on: str
    type: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    action: Action = "alert"

    def __post_init__(self) -> None:
        if not isinstance(self.on, str) or (self.on not in MODEL and not self.feature):
            raise SchemaError(
                f'on must be "error", "log_loss", "score" or "feature:NAME", got {shown(self.on)}'
            )
        one_of("action", self.action, get_args(Action))
        build(self.type, self.parameters)
        if DETECTORS[self.type].binary and self.on != "error":
            raise SchemaError(
                f"{self.type} takes errors only, got on = {self.on!r}; "
                "use ADWIN, PageHinkley or KSWIN"
            )

    def __str__(self) -> str:
        return f"{self.type} on {self.on}"

    @property
    def feature(self) -> str | None:
        """The feature it watches; None where it watches the model."""
        name = self.on.removeprefix(FEATURE)
        return name if name and name != self.on else None


@dataclass(frozen=True, slots=True)
class DriftRule:
    """All that is watched.

    Parameters
    ----------
    monitors
        At most 20, no two of one type on the same quantity.
    keep
        How many of the records learned last ``"forget"`` teaches to the model that begins anew.
    warm_up
        How many values of what the model says (error, log_loss, score) are passed over at the
        beginning, and after an action: a model that has just begun changes by itself.

    Raises
    ------
    SchemaError
        It makes no sense.
    """

    monitors: tuple[MonitorRule, ...] = ()
    keep: int = 1000
    warm_up: int = 500

    def __post_init__(self) -> None:
        whole("keep", self.keep, 1, LONGEST_KEPT)
        whole("warm_up", self.warm_up, 0, 2**31 - 1)
        listed = isinstance(self.monitors, tuple)
        if not listed or not all(isinstance(each, MonitorRule) for each in self.monitors):
            came = shown(self.monitors)
            raise SchemaError(f"monitors must be a tuple of MonitorRule, got {came}")
        if len(self.monitors) > MAX_MONITORS:
            raise SchemaError(f"expected at most {MAX_MONITORS} detectors, got more")
        seen = [str(monitor) for monitor in self.monitors]
        for name in seen:
            if seen.count(name) > 1:
                raise SchemaError(f"{name} is there twice; leave one of them")

    @property
    def chooses(self) -> bool:
        """Whether an alarm may change who is champion."""
        return any(monitor.action == "challenger" for monitor in self.monitors)

    @property
    def features(self) -> tuple[str, ...]:
        """The features that are watched."""
        return tuple(dict.fromkeys(m.feature for m in self.monitors if m.feature is not None))

    def to_json(self) -> dict[str, Any]:
        """The rule as JSON; empty where nothing is watched.

        Examples
        --------
        >>> rule = DriftRule((MonitorRule("error", "ADWIN"),), keep=50)
        >>> DriftRule.from_json(rule.to_json()) == rule
        True
        >>> DriftRule().to_json()
        {}
        """
        if not self.monitors:
            return {}
        monitors = [asdict(monitor) for monitor in self.monitors]
        return {"monitors": monitors, "keep": self.keep, "warm_up": self.warm_up}

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> DriftRule:
        """The inverse of `to_json`. SchemaError: it is none of its answers."""
        if isinstance(told, Mapping) and not told:
            return DriftRule()
        try:
            monitors = tuple(MonitorRule(**monitor) for monitor in told["monitors"])
            return DriftRule(monitors, told["keep"], told["warm_up"])
        except (TypeError, KeyError, IndexError):  # of another shape
            expected = "expected a rule as DriftRule.to_json makes it"
            raise SchemaError(f"{expected}, got {shown(told)}") from None
