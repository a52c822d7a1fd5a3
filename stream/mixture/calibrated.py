"""Calibrated: the probabilities of a learner, corrected by how often it was right."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Block
from stream.data.parameters import flag, number
from stream.data.state import Saved, State
from stream.errors import SchemaError
from stream.learner.base import Predictions
from stream.learner.registry import Facts, registered
from stream.mixture._kernels import calibrate as kernels
from stream.mixture._kernels.calibrate import ENDS, SlopesAndBiases
from stream.mixture.belief import CORRECT, RATES, biased, equal, restored, weights
from stream.mixture.composed import Composed, made, plain

__all__ = ["Calibrated"]

BINS = 10


@registered(
    Facts(
        model="its learner, as sure as it was right",
        cost="its learner's and C",
        memory="its learner's and 2·C",
        merge_unlearn="no, no",
        missing="as in its learner",
        source="Platt 1999; Guo et al. 2017; Duchi, Hazan and Singer 2011",
        reads={
            "numeric": "as its learner does",
            "binary": "as its learner does",
            "categorical": "as its learner does",
            "text": "as its learner does",
        },
    )
)
class Calibrated(Composed):
    """A learner whose probabilities are corrected, so that of the predictions with 80 % about 80 %
    are right.

    Naive Bayes is too sure where fields depend on each other, and the shares of a few neighbours
    are rough. The order of the classes by probability hardly changes, but the log loss does.

    Parameters
    ----------
    learner
        A learner, which is made once more and so does not learn itself; the name of one; or
        ``{"type": NAME}`` with parameters beside the name, as in a configuration.
    learning_rate
        The length of the first step of a slope or bias. Later steps are shorter: they are divided
        by the root of the sum of the squared gradients.
    hedge
        Whether the probabilities of the learner and a second correction count too, each as far as
        it was right, see Notes. Default False.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    slopes : tuple of float
        How much each of the three logarithms, and being the most probable class, counts; see the
        notes. At the beginning 0, 1, 0 and 0.
    correction_weight : float
        How much the corrected probabilities count, beside those of the learner; 1 without `hedge`.
    calibration_error : dict
        Expected calibration error of the learned records, ``"before"`` and ``"after"`` the
        correction: the mean distance between the largest probability and the share of right
        predictions, over 10 bins of that probability. NaN before the first one.

    Raises
    ------
    SchemaError
        The learner is not a learner or not the name of one, or a parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: the learner rejects the record.

    Notes
    -----
    P(class | x) is the softmax of Σ slope · log p + slope · [most probable] + bias, where p is the
    probability of the learner, mixed with 0.3, 0.01 and 10⁻⁶ of the uniform distribution. The four
    slopes, at least 0, and one bias for each class are learned by gradient steps of the log loss
    (AdaGrad). For two classes it is Platt's scaling with four slopes in place of one. The last
    logarithm is of use where small probabilities mean something, as in naive Bayes; the first two
    where they do not, as in nearest neighbours; and the most probable class where labels are noisy,
    so that a learner is right equally often however sure it is.

    With `hedge` there is a second correction, by bins: the largest probability of the learner
    becomes the share of the predictions in its bin that were right, where the probability itself
    counts as 30 records, and the others keep their proportions. It does not assume a form, as the
    slopes do. The prediction is the mean of three distributions, those of the learner and of both
    corrections, weighed by Bayes' rule as in `Mixture`: a correction of few labels costs more than
    it gains, and one of probabilities that are right already gains nothing. With labels at once and
    records of weight w ≤ 1, the sum of w · log loss is at most that of any of the three plus
    ln 3 + ln 5, on every stream, where 10⁻⁶ of the uniform distribution is mixed into each.

    A label of a weight above 100 counts as 100 records in both corrections; the learner learns its
    whole weight.

    If a label comes late, all this uses the probabilities at the time of the prediction. They are
    kept with the waiting row, 16 bytes a class, or 72 with `hedge`. A label that was not known at
    the prediction changes nothing. Neither `merge` nor `unlearn_one` is possible. A correction
    changes the learner and not what the correction of its probabilities has learned.

    Source: Platt 1999, Probabilistic Outputs for Support Vector Machines; Guo et al. 2017, On
    Calibration of Modern Neural Networks (temperature and vector scaling); Zadrozny and Elkan 2001,
    Obtaining Calibrated Probability Estimates from Decision Trees and Naive Bayesian Classifiers
    (bins).

    Examples
    --------
    >>> from stream.mixture import Calibrated
    >>> model = Calibrated("BernoulliNB")
    >>> for i in range(200):
    ...     x = {"a": i % 4 == 0, "the same": i % 4 == 0, "and again": i % 4 == 0}
    ...     model.learn_one(x, "no" if i % 8 == 0 else "yes")
    >>> round(model.predict_proba_one({"a": 1, "the same": 1, "and again": 1})["no"], 1)
    0.5
    >>> model.calibration_error["after"] < model.calibration_error["before"]
    True
    """

    def __init__(
        self, learner: Any = "MixedNB", learning_rate: float = 0.2, hedge: bool = False
    ) -> None:
        self.learner = learner
        try:
            made(learner)
        except SchemaError as error:
            raise SchemaError(f"learner: {error}") from None
        self.learning_rate = number("learning_rate", learning_rate, 0.0, 100.0, above=True)
        self.hedge = flag("hedge", hedge)
        self._begin()

    def _start(self) -> None:
        self._rates = np.array(RATES if self.hedge else ())
        self._belief = equal(3)
        self._compose([made(self.learner)], 4 + len(RATES) if self.hedge else 2)
        right = np.zeros((self._ends, 2))
        zeros = np.zeros(4), np.zeros(0), np.zeros(0), np.zeros((2, BINS, 3)), right
        self._correction = SlopesAndBiases(np.array([0.0, 1.0, 0.0, 0.0]), *zeros)

    @property
    def _ends(self) -> int:
        """How many bins the second correction has."""
        return ENDS.size + 1 if self.hedge else 0

    @property
    def slopes(self) -> tuple[float, ...]:
        return tuple(self._correction.slope.tolist())

    @property
    def correction_weight(self) -> float:
        """How much the corrected probabilities count, from 0 to 1."""
        return float(weights(self._belief)[1:].sum()) if self.hedge else 1.0

    @property
    def expert_weights(self) -> dict[str, float]:
        """Those of its learner, if that is a mixture."""
        return self._parts[0].expert_weights

    @property
    def calibration_error(self) -> dict[str, float]:
        """Expected calibration error before and after the correction."""
        out = {}
        for name, bins in zip(("before", "after"), self._correction.bins, strict=True):
            n = bins[:, 0].sum()
            out[name] = float(np.abs(bins[:, 1] - bins[:, 2]).sum() / n) if n else float("nan")
        return out

    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        self._widen()
        ran = self._run_parts(block)
        steps = block.op, block.row, label[block.y], block.w, before
        own = self.learning_rate, self._rates, ran, self._correction, self._belief
        kernels.progressive(*steps, *own, out.proba, out.known)

    def _widen(self) -> None:
        """A bias of 0 for each class that has none."""
        more, old = np.zeros(len(self._classes) - self._correction.bias.size), self._correction
        if more.size:
            self._correction = old._replace(
                bias=np.append(old.bias, more), bias_squares=np.append(old.bias_squares, more)
            )

    def _saved_parameters(self) -> dict[str, Any]:
        rest = {"learning_rate": self.learning_rate, "hedge": self.hedge}
        return {"learner": plain(self.learner), **rest}

    def _export(self) -> State:
        own, belief = self._correction._asdict(), self._belief._asdict()
        if not self.hedge:
            del own["right"]
            belief = {}
        return self._join(State({}, {**own, **belief}))

    def _restore(self, state: State) -> None:
        own, classes = state.nested("own"), len(self._classes)
        table = biased(4, classes, self._ends, hedged=self.hedge)
        table["bins"] = Saved(np.float64, (2, BINS, 3), 0.0)
        s = SlopesAndBiases(**own.read(table, CORRECT))
        belief = restored(own, 3) if self.hedge else self._belief
        self._restore_parts(state)
        self._correction, self._belief = s, belief
