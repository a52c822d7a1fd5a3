"""Rules: the watched quantities, their detectors and the action of an alarm, as values for the
journal.

Equal rules raise the same alarms and act in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from stream.data.parameters import one_of, shown, whole
from stream.drift.parameters import DETECTORS, checked
from stream.errors import SchemaError

__all__ = ["CHANGES", "FEATURE", "MODEL", "RESTARTS", "Action", "DriftRule", "MonitorRule"]

Action = Literal["alert", "forget", "reset", "challenger"]
RESTARTS: tuple[Action, ...] = ("forget", "reset")  # the model restarts
CHANGES: tuple[Action, ...] = (*RESTARTS, "challenger")  # "alert" changes no model
MODEL = ("error", "log_loss", "score")  # quantities of the model, not of the records
FEATURE = "feature:"
WORSE = ("error", "log_loss")  # a decrease of these is an improvement
MAX_MONITORS = 20
LONGEST_KEPT = 100_000


@dataclass(frozen=True, slots=True)
class MonitorRule:
    """One detector on one quantity.

    Parameters
    ----------
    on
        ``"error"``: 0 or 1 for each scored prediction; ``"log_loss"``: -log(probability given to
        the true class), at most 36; ``"score"``: the largest probability of each prediction,
        labelled or not; ``"feature:NAME"``: a number of each observation, if it is present.
    type
        One of `DETECTORS`.
    parameters
        Parameters of the detector.
    action
        ``"alert"``: the alarm is only reported. ``"forget"``: the model restarts with the last
        records it learned, see `DriftRule`. ``"reset"``: the model restarts empty.
        ``"challenger"``: of several models, the one with the best recent score becomes champion,
        see `stream.contest.champion`.

    Raises
    ------
    SchemaError
        A value is not valid.

    Examples
    --------
    >>> str(MonitorRule("score", "KSWIN", {"alpha": 0.001}))
    'KSWIN on score'
    >>> MonitorRule("log_loss", "DDM")
    Traceback (most recent call last):
    stream.errors.SchemaError: DDM accepts only errors, got on = 'log_loss'; use ADWIN, \
PageHinkley or KSWIN
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
        checked(self.type, self.parameters)
        if self.type != "ADWIN":  # river checks more
            from stream.drift.detectors import build

            build(self.type, self.parameters)
        if DETECTORS[self.type].binary and self.on != "error":
            raise SchemaError(
                f"{self.type} accepts only errors, got on = {self.on!r}; "
                "use ADWIN, PageHinkley or KSWIN"
            )

    def __str__(self) -> str:
        return f"{self.type} on {self.on}"

    @property
    def feature(self) -> str | None:
        """The watched feature; None if a quantity of the model is watched."""
        name = self.on.removeprefix(FEATURE)
        return name if name and name != self.on else None


@dataclass(frozen=True, slots=True)
class DriftRule:
    """All monitors of a model.

    Parameters
    ----------
    monitors
        At most 20, with different pairs of type and quantity.
    keep
        The number of last learned records from which ``"forget"`` restarts the model.
    warm_up
        The number of values of error, log_loss and score that are skipped at the start and after a
        restart, because a new model changes by itself.

    Raises
    ------
    SchemaError
        A value is not valid.
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
            raise SchemaError(f"expected at most {MAX_MONITORS} monitors, got more")
        seen = [str(monitor) for monitor in self.monitors]
        for name in seen:
            if seen.count(name) > 1:
                raise SchemaError(f"{name} is there twice; leave one out")

    @property
    def chooses(self) -> bool:
        """Whether an alarm may change the champion."""
        return any(monitor.action == "challenger" for monitor in self.monitors)

    @property
    def features(self) -> tuple[str, ...]:
        """The watched features."""
        return tuple(dict.fromkeys(m.feature for m in self.monitors if m.feature is not None))

    def to_json(self) -> dict[str, Any]:
        """The rule as JSON; empty if nothing is watched.

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
    def from_json(document: Mapping[str, Any]) -> DriftRule:
        """The inverse of `to_json`. SchemaError: it is not a result of `to_json`."""
        if isinstance(document, Mapping) and not document:
            return DriftRule()
        try:
            monitors = tuple(MonitorRule(**monitor) for monitor in document["monitors"])
            return DriftRule(monitors, document["keep"], document["warm_up"])
        except (TypeError, KeyError, IndexError):  # of another shape
            expected = "expected a rule made by DriftRule.to_json"
            raise SchemaError(f"{expected}, got {shown(document)}") from None
