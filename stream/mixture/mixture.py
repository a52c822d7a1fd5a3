"""Mixture: which learner is right is one more unknown, and Bayes' rule averages over it.

The stack of a mixture: a logistic regression over what its experts predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.compat import RiverClassifier
from stream.data.block import LEARN, PREDICT, Block, Floats, Rows
from stream.data.parameters import flag, shown
from stream.data.schema import Label
from stream.data.state import State
from stream.errors import SchemaError
from stream.learner.base import Learner, Predictions
from stream.learner.registry import Facts, registered
from stream.mixture._kernels import stack as stack_kernels
from stream.mixture._kernels import weigh as kernels
from stream.mixture._kernels.calibrate import ENDS
from stream.mixture._kernels.stack import THREE, Stacked
from stream.mixture.belief import CORRECT, RATES, Belief, Rest, biased, equal, restored, weights
from stream.mixture.belief import weights as weights_of
from stream.mixture.calibrated import Calibrated
from stream.mixture.composed import Composed, PartPredictions, made, plain
from stream.mixture.experts import EXPERTS, STACKED
from stream.mixture.guesses import ClassShares, Guess, NoChange

__all__ = ["NOTED", "Mixture", "Stack"]

OWN_RATES = (0.0, 0.01)  # shares of weight that mixture, stack and its correction exchange
NOTED = THREE + len(OWN_RATES)  # numbers that are noted of each class of a waiting row


class Stack:
    """The stack over n experts, and the weights of the mixture, the stack and its correction.

    At the beginning the mixture has half of the slopes, and the experts have the other half.
    """

    def __init__(self, n: int) -> None:
        slope = np.array([*[0.5 / n] * n, 0.5])
        squares, right = np.zeros(n + 1), np.zeros((ENDS.size + 1, 2))
        self._learned = Stacked(slope, squares, np.zeros(0), np.zeros(0), right)
        self._belief = equal(THREE, OWN_RATES)

    def run(
        self,
        steps: tuple[Any, ...],
        before: int,
        ran: PartPredictions,
        experts: Belief,
        awake: NDArray[np.bool_],
        sums: Floats,
        out: Predictions,
    ) -> None:
        """`progressive` of the kernels; steps: op, row, class code and weight of each."""
        state, rates = (
            (experts, self._learned, self._belief),
            (np.array(RATES), np.array(OWN_RATES)),
        )
        stack_kernels.progressive(
            steps, before, ran, state, rates, awake, sums, (out.proba, out.known)
        )

    def widen(self, classes: int) -> None:
        """A bias of 0 for each class that has none."""
        old = self._learned
        if more := classes - old.bias.size:
            zeros = np.zeros(more)
            self._learned = old._replace(
                bias=np.append(old.bias, zeros), bias_squares=np.append(old.bias_squares, zeros)
            )

    def shares(self, weights: Floats) -> Floats:
        """float64 (n,): the share of each expert in a prediction, by its weight in the mixture and
        its slope, each as far as mixture and stack count."""
        mixture, *rest = weights_of(self._belief).tolist()
        slope = self._learned.slope
        total = float(slope.sum())
        if total == 0.0:
            return weights
        stack = sum(rest) / total
        out: Floats = (mixture + stack * slope[-1]) * weights + stack * slope[:-1]
        return out

    def to_state(self) -> State:
        """Its arrays; they are not copied."""
        return State({}, {**self._learned._asdict(), **self._belief._asdict()})

    def load_state(self, own: State, classes: int) -> None:
        """StateError: the state is damaged."""
        table = biased(self._learned.slope.size, classes, ENDS.size + 1)
        learned = Stacked(**own.read(table, CORRECT))
        self._belief, self._learned = restored(own, THREE, OWN_RATES), learned


FLOOR = 0.001  # the share of the uniform distribution in that of each expert
MOST_EXPERTS = 32
GUESSES = 2  # before the experts, of which the first ones may be guesses too


@registered(
    Facts(
        model="each of its experts, as far as it was right",
        cost="the sum of its experts",
        memory="the sum of its experts",
        merge_unlearn="no, no",
        missing="as in its experts",
        source="Herbster and Warmuth 1998; Cesa-Bianchi and Lugosi 2006, 5",
        reads={
            "numeric": "as its experts do",
            "binary": "as its experts do",
            "categorical": "as its experts do",
            "text": "as its experts do",
        },
    )
)
class Mixture(Composed):
    """Several learners predict; each counts as much as its past predictions were likely.

    Two guesses, the shares of the classes and the last label, are always among the experts. So the
    mixture is hardly ever worse than these guesses, whatever the data are. (Where one label has far
    more weight than all others together, the guesses are no better, see Notes.)

    Parameters
    ----------
    experts
        Learners, which are made once more and so do not learn themselves; names of learners, which
        are made with their defaults; or ``{"type": NAME}`` with parameters beside the name, as in a
        configuration. A classifier of river has a name such as
        ``"river:tree.HoeffdingTreeClassifier"``, and beside its parameters it takes `pipeline` (a
        list of transformers), `seed` and `trust_pickle`. ``"NoChange"`` with `half_life` is the
        guess of the last label, by the newest labels. None: a calibrated `MixedNB`, a calibrated
        `KNNClassifier`, and four of `LogisticRegression`: with n_bins = 16; with n_bins = 12 and
        pairs; with learning_rate = 0.05, which is not misled by few records; and with learning_rate
        = 1 and half_life = 300, which follows changes faster. With `stack` a `LogisticRegression`
        with its defaults, a `NoChange` with half_life = 20 and a `DecisionTreeClassifier` are
        added, and only that regression and the slow one are calibrated.
    rest
        Whether an expert that hardly counts rests: it neither predicts nor learns for 1,000
        labels or more, see Notes. Default False.
    stack
        Whether a logistic regression over what the experts predict counts too, see Notes. Default
        False.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    experts : list
        As given.
    expert_weights : dict
        Name of each expert to its present weight. The weights sum to 1. With `stack`, its share in
        the next prediction.
    resting : list of str
        Names of the experts that rest now. They keep their weights.

    Raises
    ------
    SchemaError
        An expert is not a learner or not the name of one, or there are too many.
    InvalidRecordError
        By `learn_one` and the predictions: an expert rejects the record.

    Notes
    -----
    P(class | x) = Σ weight_i · P_i(class | x). Before it is weighed, each P_i is mixed with 0.001
    of the uniform distribution. After each label a weight is multiplied by the probability that
    the expert gave that label, so it is the posterior probability of the expert. Then each expert
    gives a share of its weight to all alike, so that an expert that was wrong for long can come
    back. There is a bank of share rates (0, 1e-4, 1e-3, 0.01 and 0.1), which is weighed in the same
    way.

    With labels at once and records of weight w ≤ 1, the sum of w · log loss is at most that of any
    one expert, mixed with 0.001 of the uniform distribution, plus ln N + ln 5, for N experts, on
    every stream. That is at most 0.001 a record more than the loss of the expert itself, so an
    expert that is always sure and right is not reached. If a label comes late, the
    probabilities count that the experts, and the mixtures of the share rates, gave at the time.
    They are kept with the waiting row, 8 · (N + 5) bytes a class. A label that was not known at the
    prediction moves no weight.

    A label of a weight above 1 moves the odds of two experts as far as that many labels do, but at
    most as far as one record of weight 1 can, by the factor C / 0.001 for C classes. In gradient
    steps, and in bins, it counts as at most 100 records. So what the mixture itself has learned is
    never ruined by one label. Its experts learn the whole weight: one label of a million is nearly
    all that an expert which does not forget knows. A service rejects such labels, see
    ``[labels] max_weight``.

    With `rest`, an expert whose mean weight over 1,000 labels was below 0.01 rests for the next
    1,000. Then it is tried for 1,000 labels, and rests for 2,000 if its weight is still low, and at
    most for 4,000. The first rests begin after 2,000 labels. The two guesses never rest, nor do
    guesses at the beginning of `experts`. While an
    expert rests, it counts as if it predicted what the others do, so its weight stays the same. The
    bound then holds with the loss of these predictions in place of its own (Freund et al. 1997),
    and unchanged for the guesses. A row that an expert did not predict is learned by its parts as
    if the label came at once.

    With `stack`, the mixture is one of three distributions that are weighed by Bayes' rule. The
    second one, the stack, is the softmax of Σ slope · log p + bias, where p are the probabilities
    of each expert, floored as above, and of the mixture. So experts that are right together only
    count together, and one that is less sure than it is right counts more. The slopes, at least 0,
    and one bias for each class are learned by gradient steps of the log loss (AdaGrad, learning
    rate 0.02). At the beginning the mixture has the slope 0.5, and the N experts have 0.5 / N each.
    The third one is the stack corrected by bins as in `Calibrated`. The share rates of the three
    are 0 and 0.01. With labels at once and records of weight w ≤ 1, the sum of w · log loss is at
    most that of any of the three, with 10⁻⁶ of the uniform distribution, plus ln 3 + ln 2. An
    expert that rests counts in the stack as if it predicted what the mixture does, and its slope
    stays the same. A waiting row keeps five numbers more of each class.

    Each expert reads a declared field as it does alone. In a dict without declared fields, a truth
    value is a number if it is one to every expert, and else a category; a string is a text if it is
    one to every expert.

    Source: Herbster and Warmuth 1998, Tracking the Best Expert; the bank: Cesa-Bianchi and Lugosi
    2006, Prediction, Learning, and Games, chapter 5; the rests: Freund, Schapire, Singer and
    Warmuth 1997, Using and Combining Predictors that Specialize; the stack: Wolpert 1992, Stacked
    Generalization; Mahoney 2013, Data Compression Explained (logistic mixing).

    Examples
    --------
    >>> from stream import GaussianNB, LogisticRegression
    >>> from stream.mixture import Mixture
    >>> model = Mixture([GaussianNB(), LogisticRegression()])
    >>> for height, y in [(1.6, "a"), (1.7, "a"), (1.9, "b"), (2.0, "b")]:
    ...     model.learn_one({"height": height}, y)
    >>> model.predict_one({"height": 1.62})
    'a'
    >>> list(model.expert_weights)
    ['ClassShares', 'NoChange', 'GaussianNB', 'LogisticRegression']
    """

    def __init__(
        self, experts: Sequence[Any] | None = None, rest: bool = False, stack: bool = False
    ) -> None:
        self.experts = _checked(experts)
        self.rest = flag("rest", rest)
        self.stack = flag("stack", stack)
        self._begin()

    def _start(self) -> None:
        default = STACKED if self.stack else EXPERTS
        given = map(made, default if self.experts is None else self.experts)
        every = [ClassShares(), NoChange(), *given]
        n = len(every)
        self._compose(every, n + len(RATES) + NOTED * self.stack)
        self._belief, self._stack = equal(n), Stack(n) if self.stack else None
        guesses = len(list(takewhile(lambda part: isinstance(part, Guess), every)))
        self._rest = Rest(n, always=guesses) if self.rest else None

    @property
    def resting(self) -> list[str]:
        """Names of the experts that rest now."""
        if self._rest is None:
            return []
        return [n for n, awake in zip(self._names(), self._rest.awake, strict=True) if not awake]

    @property
    def expert_weights(self) -> dict[str, float]:
        """Name of each expert to its weight, with parameters where two are of one type."""
        found = weights(self._belief)
        if self._stack is not None:
            found = self._stack.shares(found)
        return dict(zip(self._names(), found.tolist(), strict=True))

    def _names(self) -> list[str]:
        short = [_name(expert, full=False) for expert in self._parts]
        names: list[str] = []
        for expert, name in zip(self._parts, short, strict=True):
            found = _name(expert, full=True) if short.count(name) > 1 else name
            same = sum(n == found or n.startswith(f"{found} ") for n in names)
            names.append(f"{found} {same + 1}" if same else found)
        return names

    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        self._widen()
        if self._rest is None:
            awake = np.ones(len(self._parts), dtype=np.bool_)
            self._weigh(block, label, before, awake, np.empty(0), out)
            return
        start, predicted = 0, 0
        for stop in self._rest.stops(block.op):
            part = block.slice(start, stop)
            end = predicted + int((part.op != LEARN).sum())
            into = Predictions(out.classes, out.proba[predicted:end], out.known[predicted:end])
            self._weigh(part, label, before, self._rest.awake, self._rest.sums, into)
            learned = label[part.y[part.op != PREDICT]]
            self._rest.count(learned.size)
            before = max(before, int(learned.max(initial=-1)) + 1)
            start, predicted = stop, end

    def _widen(self) -> None:
        """A bias of the stack for each class that has none."""
        if self._stack is not None:
            self._stack.widen(len(self._classes))

    def _weigh(
        self,
        block: Block,
        label: NDArray[np.int64],
        before: int,
        awake: NDArray[np.bool_],
        sums: Floats,
        out: Predictions,
    ) -> None:
        ran = self._run_parts(block, awake)
        steps = block.op, block.row, label[block.y], block.w
        if self._stack is not None:
            self._stack.run(steps, before, ran, self._belief, awake, sums, out)
            return
        own = np.array(RATES), FLOOR, ran, self._belief, awake, sums
        kernels.progressive(*steps, before, *own, out.proba, out.known)

    def correct_rows(
        self, rows: Rows, old: tuple[Label, float], new: tuple[Label, float], age: int
    ) -> None:
        """See `Composed.correct_rows`. An expert that rested when the old label was learned learns
        the new one, unless it rests now."""
        super().correct_rows(rows, old, new, age)
        if self._rest is not None:
            self._rest.count(1)

    def _correct_part(
        self, i: int, rows: Rows, old: tuple[Label, float], new: tuple[Label, float], age: int
    ) -> None:
        if self._rest is None or self._rest.awake_at(age)[i]:
            super()._correct_part(i, rows, old, new, age)
        elif self._rest.awake[i]:
            self._learn_part(i, rows, new, age)

    def _saved_parameters(self) -> dict[str, Any]:
        """The names of the experts, and the parameters of those that were given as learners."""
        experts = None if self.experts is None else list(map(plain, self.experts))
        return {"experts": experts, "rest": self.rest, "stack": self.stack}

    def _export(self) -> State:
        inner = self._join(State({}, self._belief._asdict()))
        more = {"rest": self._rest, "stack": self._stack}
        own = {name: part.to_state() for name, part in more.items() if part is not None}
        return State.join({"parts": inner, **own}) if own else inner

    def _restore(self, state: State) -> None:
        if self._rest is not None:
            self._rest.load_state(state.nested("rest"))
        if self._stack is not None:
            self._stack.load_state(state.nested("stack"), len(self._classes))
        if self._rest is not None or self._stack is not None:
            state = state.nested("parts")
        belief = restored(state.nested("own"), len(self._parts))
        self._restore_parts(state)
        self._belief = belief


def _name(expert: Learner, full: bool) -> str:
    """The type of an expert and, if full, its parameters that are not the defaults."""
    if isinstance(expert, RiverClassifier):
        return str(expert.model)
    name = type(expert).__name__
    if isinstance(expert, Calibrated):
        return f"{name}({_name(expert._parts[0], full)})"
    defaults = signature(type(expert)).parameters
    own = [
        f"{name}={shown(value)}"
        for name, value in expert._get_params().items()
        if value != defaults[name].default and (value or defaults[name].default)
    ]
    return f"{name}({', '.join(own)})" if own and full else name


def _checked(experts: Sequence[Any] | None) -> list[Any] | None:
    """`experts`, if each is a learner or names one."""
    if experts is None:
        return None
    listed = isinstance(experts, Sequence) and not isinstance(experts, str)
    if not listed or not 1 <= len(experts) <= MOST_EXPERTS:
        raise SchemaError(
            f"experts must be a list of 1 to {MOST_EXPERTS} learners, got {shown(experts)}"
        )
    for expert in experts:
        try:
            made(expert)
        except SchemaError as error:
            raise SchemaError(f"experts: {error}") from None
    return list(experts)
