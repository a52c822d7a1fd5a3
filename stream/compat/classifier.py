"""Any river classifier as a Learner. Pickles are read only here, and only with `trust_pickle`."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Mapping
from math import fsum, isfinite, nan
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from river import base
from river.__version__ import __version__ as river_version

from stream.data.block import LEARN, PREDICT, Block, Rows, rows_used
from stream.data.parameters import flag, shown
from stream.data.schema import Label
from stream.data.state import Saved, State
from stream.errors import SchemaError, StateError, StreamError
from stream.learner.base import Learner, Predictions

__all__ = ["RiverClassifier", "one_line", "without_pickles"]

PICKLE = "pickle"  # the array of a state

UNTRUSTED = (
    "its state can be saved only with trust_pickle = true; "
    "otherwise it is rebuilt from the journal at start"
)


class RiverClassifier(Learner):
    """A river classifier, or a pipeline that ends in one, as a Learner.

    Parameters
    ----------
    model
        The untrained river model. It learns in place.
    trust_pickle
        Whether the state may be saved and loaded. river models are saved as pickles, and loading a
        pickle can run any code that is in it.
    description
        A text that a saved state must have too, for a model of code that may change. Empty: the
        names of the classes of the model are compared.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    can_save : bool
        Whether `to_state` works: `trust_pickle`.

    Raises
    ------
    SchemaError
        `model` is not a river classifier.
    StreamError
        By learning: the river model failed at its first record, so it will fail at every record.

    Notes
    -----
    Each step is one call of the river model with a dict of the present values, by name: numbers as
    float (truth values as 1.0 and 0.0), then categories, then texts. Its probabilities are
    published unchanged, with these exceptions. ``{}`` or no label means that no class is known.
    Classes that it has not learned are left out, and the rest is divided by its sum. If
    probabilities are not finite, negative or all 0, the share of each class in the learned records
    is used, or equal shares if none was learned. A model without probabilities gives its label the
    probability 1.

    If a model that has worked before fails at a record, the record is skipped (its prediction is
    the share of each class) and counted in `overflows`, because one bad record must not stop a
    service. The river model may keep a partial change of such a record.

    A model for two classes gets truth values. Other labels become False and True in the order they
    are learned, and a third label is rejected as one class too many. A model whose `learn_one` has
    no `w` learns each record once; `overflows["weights"]` counts the ignored weights other than 1.

    The fingerprint shows whether a learner has changed. Equal learners may have different
    fingerprints, because a pickle has object identities and river's distributions have unseeded
    generators.

    Examples
    --------
    >>> from river import naive_bayes
    >>> from stream.compat import RiverClassifier
    >>> model = RiverClassifier(naive_bayes.GaussianNB())
    >>> for height, y in [(1.6, "a"), (1.7, "a"), (1.9, "b"), (2.0, "b")]:
    ...     model.learn_one({"height": height}, y)
    >>> model.predict_one({"height": 1.62})
    'a'
    """

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws that do not apply to a river model, with the reason."""
        laws = {
            "merging": (
                "merging_equals_learning_both",
                "merging_what_does_not_fit_is_refused",
                "merging_with_oneself_is_learning_twice",
            ),
            "unlearning": (
                "unlearning_is_the_inverse_of_learning",
                "unlearning_what_was_not_learned_is_refused",
            ),
            "joint log likelihoods": ("the_posterior_is_the_normalised_joint_likelihood",),
            "evidence": ("the_evidence_normalises_the_joint_likelihood",),
            "explanations": (
                "contributions_sum_exactly_to_the_log_odds",
                "an_explanation_of_the_converse_is_the_negative",
            ),
            "counting its parameters": ("parameters_are_counted",),
        }
        return {name: f"river has no {what}" for what, names in laws.items() for name in names}

    def __init__(
        self, model: base.Classifier, trust_pickle: bool = False, description: str = ""
    ) -> None:
        if not isinstance(model, base.Classifier):
            raise SchemaError(f"expected a river classifier, got {shown(model)}")
        last = getattr(model, "_last_step", model)
        if any(c.__module__.startswith("river.active.") for c in type(last).__mro__):
            raise SchemaError(
                f"{type(last).__name__} asks for labels, but here labels arrive by themselves; "
                "pass the classifier inside it"
            )
        self.model = model
        self.trust_pickle = flag("trust_pickle", trust_pickle)
        self.description = description
        self._begin()

    @property
    def can_save(self) -> bool:
        return self.trust_pickle

    @property
    def _multiclass(self) -> bool:
        return bool(self.model._multiclass)

    def _start(self) -> None:
        self._learned: list[int] = []
        self._unweighted, self._proven = 0, False
        self._failed = {"predict": 0, "learn": 0}
        self._bind()

    def _bind(self) -> None:
        if not self._multiclass:
            self._classes.bound = 2
        last = getattr(self.model, "_last_step", self.model)
        self._weighs = "w" in inspect.signature(type(last).learn_one).parameters
        self._weighs = bool(getattr(last, "weighs", self._weighs))  # of OneVsRest

    def restarted(self, proven: bool) -> Self:
        """An empty learner. If `proven`, a failure at its first record is counted, not raised."""
        fresh = super().restarted(proven)
        fresh._proven = self._proven or proven
        return fresh

    def compile_kernels(self) -> None:
        """Do nothing: river's models are compiled already."""

    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        self._learned += [0] * (len(self._classes) - len(self._learned))
        used, row = rows_used(block)
        xs = _by_name(block.rows.take(used)).dicts()
        known, k = before, 0
        for op, r, y, w in zip(
            block.op.tolist(), row.tolist(), block.y.tolist(), block.w.tolist(), strict=True
        ):
            if op != LEARN:
                p = self._posterior(xs[r], known)
                out.proba[k, : len(p)] = p
                out.known[k] = len(p)
                k += 1
            if op != PREDICT:
                code = int(label[y])
                self._teach(xs[r], code, w)
                known = max(known, code + 1)

    def _teach(self, x: dict[Any, Any], code: int, w: float) -> None:
        more = {}
        if w != 1.0 and self._weighs:
            more["w"] = w
        elif w != 1.0:
            self._unweighted += 1
        try:
            self.model.learn_one(x, self._river_label(code), **more)
        except Exception as error:
            if not (self._proven or any(self._learned)):
                raise self._failure("learn", error) from error
            self._failed["learn"] += 1
            return
        self._learned[code] += 1

    def _posterior(self, x: dict[Any, Any], known: int) -> list[float]:
        """Probabilities of the `known` classes; empty if river returns none."""
        if not known:
            return []  # some models would initialise themselves by the first prediction
        try:
            if not (by_label := self._probabilities(x)):
                return []
            p = [float(by_label.get(self._river_label(code), 0.0)) for code in range(known)]
        except Exception:
            self._failed["predict"] += 1
            p = [nan] * known
        total = fsum(p) if all(isfinite(v) and v >= 0 for v in p) else 0.0
        if not (total > 0 and isfinite(total)):
            learned = self._learned[:known]
            p = [float(n) for n in learned] if any(learned) else [1.0] * known
            total = fsum(p)
        if abs(total - 1.0) > 1e-9:
            return [v / total for v in p]
        return p

    def _probabilities(self, x: dict[Any, Any]) -> Mapping[Any, float]:
        try:
            return self.model.predict_proba_one(x)
        except NotImplementedError:  # river's sign that a classifier has no probabilities
            label = self.model.predict_one(x)
            return {} if label is None else {label: 1.0}

    def _river_label(self, code: int) -> Label:
        label: Label = self._classes.values[code]
        return label if self._multiclass or isinstance(label, bool) else bool(code)

    def _failure(self, doing: str, error: Exception) -> StreamError:
        return StreamError(
            f"river model {self.model} failed to {doing} ({one_line(error)}): "
            "change its features, or put a transformer before it"
        )

    @property
    def overflows(self) -> dict[str, int]:
        failed = {f"{doing}_failures": n for doing, n in self._failed.items()}
        return {**super().overflows, "weights": self._unweighted, **failed}

    def to_state(self) -> State:
        """The whole state, the river model as a pickle.

        Raises
        ------
        StateError
            `trust_pickle` is false, or the model cannot be pickled.
        """
        if not self.trust_pickle:
            raise StateError(f"{self.model}: {UNTRUSTED}")
        return super().to_state()

    def _saved_parameters(self) -> dict[str, Any]:
        """Empty: the state has the model with its parameters."""
        return {}

    def _export(self) -> State:
        try:
            data = pickle.dumps(self.model, protocol=5)
        except Exception as error:
            raise StateError(f"{self.model} cannot be pickled: {one_line(error)}") from error
        header = {
            "river": river_version,
            "model": str(self.model),
            "weights": self._unweighted,
            "proven": self._proven,
            "description": self.description,
        }
        arrays: dict[str, NDArray[Any]] = {
            PICKLE: np.frombuffer(data, dtype=np.uint8),
            "learned": np.array(self._learned, dtype=np.int64),
        }
        return State(header, arrays)

    def _restore(self, state: State) -> None:
        if not self.trust_pickle:
            raise StateError(f"{self.model}: {UNTRUSTED}")
        expected = (river_version, str(self.model))
        found = (state.header.get("river"), state.header.get("model"))
        if found != expected:
            raise StateError(f"expected (river, model) {expected}, got {found}: rebuild it")
        if state.header.get("description") != self.description:
            raise StateError(f"the parameters of {self.model} have changed: rebuild it")
        table = {"learned": Saved(np.int64, (len(self._classes),)), PICKLE: Saved(np.uint8, ("n",))}
        learned, data = state.read(table).values()
        try:
            model = pickle.loads(data.tobytes())  # noqa: S301  the operator set trust_pickle = true
        except Exception as error:
            raise StateError(f"pickle of {self.model}: {one_line(error)}") from error
        if type(model) is not type(self.model):
            raise StateError(f"expected a pickled {self.model}, got {type(model).__name__}")
        self.model = model
        self._learned = learned.tolist()
        self._unweighted = int(state.header["weights"])
        self._proven = bool(state.header["proven"])
        self._bind()


def _by_name(rows: Rows) -> Rows:
    """`rows` with columns sorted by name, because some models depend on their order."""
    numeric, categorical, text = (
        sorted(range(len(names)), key=names.__getitem__)
        for names in (rows.numeric_names, rows.categorical_names, rows.text_names)
    )
    return Rows(
        tuple(rows.numeric_names[j] for j in numeric),
        rows.numeric[:, numeric],
        tuple(rows.categorical_names[j] for j in categorical),
        rows.categorical[:, categorical],
        tuple(rows.text_names[j] for j in text),
        rows.text[:, text],
        rows.binary_names,
    )


def without_pickles(state: State) -> State:
    """A state with everything but the river models in it, at any depth.

    Two runs over the same records have the same bits here, also where a pickle has others.
    """
    kept = {k: v for k, v in state.arrays.items() if k.rpartition("/")[2] != PICKLE}
    return State(state.header, kept)


def one_line(error: BaseException) -> str:
    """Type and text of an error of other code, short and in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
