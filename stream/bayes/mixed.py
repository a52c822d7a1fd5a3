"""Bayes on any mix of attributes. Naive: each kind of feature has its own distribution. Full: a
joint table of the categories, and a Gaussian of the numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar, Literal, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray

from stream.bayes.categorical import CategoricalPart
from stream.bayes.categories import LONGEST_VALUE, Domains, Shares, check_domains, check_estimate
from stream.bayes.classifier import BayesClassifier, check_priors
from stream.bayes.covariance import Covariance, CovariancePart, Missing, Settings
from stream.bayes.gaussian import GaussianPart
from stream.bayes.joint import JointPart
from stream.bayes.part import Part, Steps, Term, UnlearnAmount
from stream.bayes.tokens import TOKEN_ALPHA, TokenPart
from stream.data.block import LEARN, PREDICT, Block, Floats, Rows
from stream.data.parameters import (
    check_half_life,
    flag,
    mapping,
    names,
    number,
    one_of,
    shown,
    whole,
)
from stream.data.rows import conflicts
from stream.data.schema import HEAVIEST, Kind, Label, Schema
from stream.data.state import Saved, State
from stream.errors import InvalidRecordError, SchemaError
from stream.learner.registry import Facts, distributions, registered

__all__ = ["MAX_CELLS", "MixedBayes", "MixedNB"]

MAX_CELLS = 256

Key = tuple[tuple[str, str], ...]


class _Cell:
    """The Gaussian of one cell, and the number of its records of each class."""

    def __init__(self, part: CovariancePart) -> None:
        self.part = part
        self.records = np.zeros(0, dtype=np.int64)

    def had(self, names: Sequence[str]) -> tuple[Floats, NDArray[np.bool_]]:
        """The first value of each number (NaN if none), and whether another value came."""
        s, codes = self.part.moments, self.part._features.codes
        first = np.full(len(names), np.nan)
        varied = np.zeros(len(names), dtype=np.bool_)
        for k, name in enumerate(names):
            j = codes.get(name, -1)
            if j >= 0 and s.total_n[j] > 0:
                first[k], varied[k] = s.anchor[j], s.total_m2[j] > 0
        return first, varied

    def widen(self, classes: int) -> None:
        more = np.zeros(classes - self.records.size, dtype=np.int64)
        self.records = np.concatenate((self.records, more))
        self.part._resize(classes)


class ConditionalPart(Part):
    """Numeric features, jointly normal given class and cell.

    Parameters
    ----------
    covariance, settings
        Of each Gaussian.
    thin
        If a cell has fewer records of a class than this, or fewer than twice the record's numbers,
        the Gaussian of the class is used.
    """

    name: ClassVar[str] = "conditional"

    def __init__(self, covariance: Covariance, settings: Settings, thin: int) -> None:
        self._of = (covariance, settings)
        self._thin = thin
        self._class = CovariancePart(covariance, settings)
        self._cells: dict[Key, _Cell] = {}
        self._refused = 0
        self._classes = 0  # cells make room for new classes when they are next used

    @property
    def features(self) -> list[str]:
        return self._class.features

    @property
    def overflows(self) -> dict[str, int]:
        return {**self._class.overflows, "gaussians": self._refused}

    def tables(self, schema: Schema, classes: int) -> int:
        """Bytes of the class's Gaussians, and the same for each cell."""
        texts = 4 * LONGEST_VALUE * len(schema.categorical)
        return (1 + MAX_CELLS) * (self._class.tables(schema, classes) + 8 * classes + texts)

    def execute(self, block: Block, steps: Steps, classes: int, joint: Floats) -> None:
        of_class = np.zeros_like(joint)
        self._class.execute(block, steps, classes, of_class)
        self._classes = classes
        place = np.cumsum(block.op != LEARN) - 1  # the row of `joint` of each predicting step
        for key, at in self._groups(block):
            cell = self._cells.get(key)
            if cell is None:
                continue
            cell.widen(classes)
            part = Block(
                block.rows, block.op[at], block.row[at], block.y[at], block.w[at], block.labels
            )
            own = Steps(part.op, part.row, steps.y[at], part.w, _known(cell), steps.growth)
            in_cell = np.zeros((part.n_predictions, classes))
            # Before it learns, because the state before the step decides what is thin.
            thick = self._thick(cell, part, own, classes)
            cell.part.execute(part, own, classes, in_cell)
            rows = place[at[part.op != LEARN]]
            of_class[rows] = np.where(thick, in_cell, of_class[rows])
        joint += of_class

    def _groups(self, block: Block) -> Iterator[tuple[Key, NDArray[np.int64]]]:
        """The steps of each cell. Cells are made in the order of their first learning step."""
        keys = {row: _key(block.rows, row) for row in set(block.row.tolist())}
        groups: dict[Key, list[int]] = {}
        for i, (row, op) in enumerate(zip(block.row.tolist(), block.op.tolist(), strict=True)):
            groups.setdefault(keys[row], []).append(i)
            if op != PREDICT and not self._admit(keys[row]):
                self._refused += 1
        for key, at in groups.items():
            yield key, np.array(at, dtype=np.int64)

    def _admit(self, key: Key) -> bool:
        long = any(len(value) > LONGEST_VALUE for _, value in key)
        if key not in self._cells and len(self._cells) < MAX_CELLS and not long:
            self._cells[key] = _Cell(CovariancePart(*self._of))
        return key in self._cells

    def _thick(self, cell: _Cell, part: Block, steps: Steps, classes: int) -> NDArray[np.bool_]:
        """Whether each predicting step may use the cell, by class. Counts the learned records."""
        cell.widen(classes)
        names, x = part.rows.numeric_names, part.rows.numeric
        first, varied = cell.had(names)
        out = np.zeros((part.n_predictions, classes), dtype=np.bool_)
        k = 0
        for op, row, y in zip(part.op.tolist(), part.row.tolist(), steps.y.tolist(), strict=True):
            present = ~np.isnan(x[row])
            if op != LEARN:
                need = max(self._thin, 2 * int(np.count_nonzero(present)))
                out[k] = (cell.records >= need) & bool(varied[present].all())
                k += 1
            if op != PREDICT:
                cell.records[y] += 1
                varied |= present & (first != x[row]) & ~np.isnan(first)
                first = np.where(np.isnan(first), x[row], first)
        return out

    def terms(self, rows: Rows, classes: int) -> list[Term]:
        of_class = dict(self._class.terms(rows, classes))
        cell = self._cells.get(_key(rows, 0))
        if cell is None:
            return list(of_class.items())
        cell.widen(classes)
        present = ~np.isnan(rows.numeric[0])
        need = max(self._thin, 2 * int(np.count_nonzero(present)))
        thick = (cell.records >= need) & bool(cell.had(rows.numeric_names)[1][present].all())
        in_cell = dict(cell.part.terms(rows, classes))
        nothing = np.zeros(classes)
        return [
            (n, np.where(thick, in_cell.get(n, nothing), of_class.get(n, nothing)))
            for n in dict.fromkeys([*of_class, *in_cell])
        ]

    def lacks(self, rows: Rows, c: int, amount: UnlearnAmount) -> str | None:
        cell = self._cells.get(_key(rows, 0))
        if cell is None:
            if not self._refused:
                return "no record had this combination of categories"
            return self._class.lacks(rows, c, amount)
        if c >= cell.records.size or not cell.records[c]:
            return "no record of its class had this combination of categories"
        return self._class.lacks(rows, c, amount) or cell.part.lacks(rows, c, amount)

    def unlearn(self, rows: Rows, c: int, amount: UnlearnAmount) -> None:
        self._class.unlearn(rows, c, amount)
        key = _key(rows, 0)
        cell = self._cells.get(key)
        if cell is None:
            self._refused -= 1
            return
        cell.records[c] -= 1
        if not cell.records.any():
            del self._cells[key]
            return
        cell.part.unlearn(rows, c, amount)

    def drop_class(self, c: int) -> None:
        self._class.drop_class(c)
        self._classes -= 1
        for cell in self._cells.values():
            if c < cell.records.size:
                cell.records = np.delete(cell.records, c)
                cell.part.drop_class(c)

    def merge(self, other: Self, classes: NDArray[np.int64], size: int, fade: float) -> None:
        self._class.merge(other._class, classes, size, fade)
        self._classes = size
        for key, theirs in other._cells.items():
            if not self._admit(key):
                self._refused += int(theirs.records.sum())
                continue
            mine = self._cells[key]
            mine.widen(size)
            codes = classes[: theirs.records.size]
            mine.part.merge(theirs.part, codes, size, fade)
            mine.records[codes] += theirs.records
        self._refused += other._refused

    def n_parameters(self, classes: int) -> int:
        return self._class.n_parameters(classes) + sum(
            cell.part.n_parameters(_known(cell)) for cell in self._cells.values()
        )

    def export(self) -> State:
        for cell in self._cells.values():
            cell.widen(self._classes)
        parts = {"class": self._class.export()}
        for i, cell in enumerate(self._cells.values()):
            parts[f"cell{i}"] = cell.part.export()
        joined = State.join(parts)
        keys = [[list(pair) for pair in key] for key in self._cells]
        arrays = {f"records{i}": c.records for i, c in enumerate(self._cells.values())}
        header = {**joined.header, "cells": keys, "refused": self._refused}
        return State(header, {**joined.arrays, **arrays})

    def restore(self, state: State, classes: int) -> None:
        self._class.restore(state.nested("class"), classes)
        cells: dict[Key, _Cell] = {}
        for i, pairs in enumerate(state.header["cells"]):
            cell = _Cell(CovariancePart(*self._of))
            name = f"records{i}"
            cell.records = state.read({name: Saved(np.int64, (classes,))})[name]
            cell.part.restore(state.nested(f"cell{i}"), classes)
            cells[tuple((str(n), str(v)) for n, v in pairs)] = cell
        self._cells, self._refused = cells, int(state.header["refused"])
        self._classes = classes


def _key(rows: Rows, row: int) -> Key:
    pairs = zip(rows.categorical_names, rows.categorical[row], strict=True)
    return tuple(sorted((name, value) for name, value in pairs if value is not None))


def _known(cell: _Cell) -> int:
    """Number of classes up to the last one of which the cell has a record."""
    had = np.flatnonzero(cell.records)
    return int(had[-1]) + 1 if had.size else 0


@registered(
    Facts(
        model="each field by its kind",
        cost="the sum of its parts",
        memory="the sum of its parts",
        missing="no evidence",
        source="Zaki and Meira 18.2, Q2",
        reads={
            "numeric": "used",
            "binary": "a category",
            "categorical": "used",
            "text": "its words",
        },
    )
)
class MixedNB(BayesClassifier):
    """Naive Bayes on numbers, categories, truth values and texts together.

    A number is normal given the class, as in `GaussianNB`; a category or truth value is counted,
    as in `CategoricalNB`; a text is its tokens, as in `MultinomialNB`. Their log likelihoods are
    added.

    Parameters
    ----------
    alpha
        Added to every count of a category. 0 is maximum likelihood: a count of 0 makes a class
        impossible.
    variance, var_smoothing
        For numbers, as in `GaussianNB`.
    priors
        Label, or its text, to prior probability. None: priors are learned.
    text
        Features whose strings are texts. Other strings are categories. (In the service, fields are
        declared.)
    domains
        Field to the values it can take, as in `CategoricalNB`. The domain of any other field is the
        values learned so far.
    half_life
        Number of records after which what was learned has half its weight. None: no fading.
    m, p, smooth
        For categories, as in `CategoricalNB`: the m-estimate instead of alpha, with the prior p;
        and ``"zeros"`` to smooth counts of 0 only.
    token_alpha
        Added to every count of a token, as in `MultinomialNB`. None: alpha, or 1 if alpha is 0,
        which was the first default.
    distributions
        Numeric field to the name of its distribution instead of the normal one. Names are those of
        `stream.learner.registry.distributions`; the learners' default parameters are used.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        Numbers, then categories, each in the order they were first learned.

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: an infinite number, or a value that differs in kind
        (number, category, text) from what its field was learned with or from `text`.

    Notes
    -----
    O(C · (features + tokens)) to predict, O(features + tokens) to learn. A field keeps the kind it
    was first learned with. Source: Zaki and Meira, Data Mining and Machine Learning, chapter 18.2
    and its exercise Q2; Domingos and Pazzani 1997 on why it works although features are not
    independent.

    Examples
    --------
    >>> from stream import MixedNB
    >>> model = MixedNB(text=["body"])
    >>> model.learn_one({"body": "free money", "hops": 7.5, "signed": False}, "spam")
    >>> model.learn_one({"body": "see you at noon", "hops": 2.0, "signed": True}, "ham")
    >>> model.learn_one({"body": "noon is fine", "hops": 3.0, "signed": True}, "ham")
    >>> model.predict_one({"body": "free at noon?", "hops": 2.5, "signed": True})
    'ham'
    """

    truths: ClassVar[str] = "categorical"

    def __init__(
        self,
        alpha: float = 1.0,
        variance: Literal["ml", "sample"] = "ml",
        var_smoothing: float = 1e-9,
        priors: Mapping[Label, float] | None = None,
        text: Sequence[str] = (),
        domains: Domains = None,
        half_life: float | None = None,
        m: float | None = None,
        p: Shares = None,
        smooth: Literal["all", "zeros"] = "all",
        token_alpha: float | None = TOKEN_ALPHA,
        distributions: Mapping[str, str] | None = None,
    ) -> None:
        self.variance = one_of("variance", variance, ("ml", "sample"))
        self.var_smoothing = number("var_smoothing", var_smoothing, 0.0)
        self.priors = check_priors(priors)
        self.text = names("text", text)  # a tuple without entries cannot be cloned by river
        self.domains = check_domains(domains)
        self.alpha, self.m, self.p, self.smooth = check_estimate(alpha, m, p, smooth, self.domains)
        self.half_life = check_half_life(half_life)
        self.token_alpha = None if token_alpha is None else number("token_alpha", token_alpha, 0.0)
        self.distributions = _check_distributions(distributions)
        self._begin()

    @property
    def _texts(self) -> Collection[str]:
        return self.text

    def _new_parts(self) -> tuple[Part, ...]:
        self._gaussian = GaussianPart(float(self.variance == "sample"), self.var_smoothing)
        estimate = (self.alpha, self.m, self.p, self.smooth)
        self._categorical = CategoricalPart(*estimate, self.domains)
        tokens = (self.alpha or 1.0) if self.token_alpha is None else self.token_alpha
        self._tokens = TokenPart(tokens, numbers=False)
        others = tuple(self._others())
        self._gaussian.never = frozenset(self.distributions or ())
        return (self._gaussian, *others, self._categorical, self._tokens)

    def _others(self) -> Iterator[Part]:
        """One part for each distribution, with its fields."""
        given = self.distributions or {}
        for distribution in sorted(set(given.values())):
            kind = cast("type[BayesClassifier]", distributions()[distribution])
            part = kind.number_part()
            part.only = frozenset(name for name, named in given.items() if named == distribution)
            yield part

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows with a value that differs in kind from what its field was learned with, or
        declared."""
        return super().refusals(rows) | conflicts(rows, **self._fields())

    def _fields(self) -> dict[str, Collection[str]]:
        numbers, categories = self._gaussian.features, self._categorical.features
        numbers += list(self.distributions or ())
        texts = {*self._tokens.texts.known, *self.text}
        return {"numeric": set(numbers), "categorical": set(categories), "text": texts}


def _check_distributions(given: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """`given`, if it maps names of fields to names of distributions; None if it is empty."""
    if given is None:
        return None
    checked = mapping("distributions", given, "field to the name of a distribution")
    if not all(isinstance(name, str) for name in checked):
        raise SchemaError(f"distributions must name fields by text, got {shown(given)}")
    known = distributions()
    return {k: one_of(f"distributions[{shown(k)}]", v, known) for k, v in checked.items()} or None


@registered(
    Facts(
        model="joint table × Gaussian, per class or (`conditional`) per cell",
        cost="C·d²; d²",
        memory="the sum of its parts",
        merge_unlearn="if no value is missing",
        missing="as in its parts",
        source="Zaki and Meira 18.1, Q1; Olkin and Tate 1961",
        reads={"numeric": "used", "binary": "a category", "categorical": "used"},
    )
)
class MixedBayes(BayesClassifier):
    """Full Bayes on categories and numbers, without independence assumptions within each kind.

    p(x | class) = P(categories of x | class) · N(numbers of x | class), with the joint table of
    `CategoricalBayes` and the mean vector and covariance matrix of `GaussianBayes`.

    Parameters
    ----------
    conditional
        True: use the Gaussian of the class *in the record's cell* (its tuple of categories), if the
        class has had at least `thin` records in the cell, at least twice as many as the record has
        numbers, and no number was constant there. Otherwise use the Gaussian of the class.
    thin
        See `conditional`.
    alpha, domains
        Of the joint table, as in `CategoricalBayes`.
    covariance, variance, ridge, missing
        Of the Gaussian, as in `GaussianBayes`: ``"full"`` or ``"diagonal"``.
    priors
        Label, or its text, to prior probability. None: learned.
    half_life
        Number of records after which what was learned has half its weight. None: no fading. Not
        allowed with `conditional`, because a rare cell would fade by the records of other cells.
    m, p, smooth
        Of the joint table, as in `CategoricalBayes`.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        Categories, then numbers, each in the order they were first learned.

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: an infinite number, a text for a number or a number for
        a category.

    Notes
    -----
    O(C · (d² + features)) to predict and O(d²) to learn, for d numbers; with missing values O(C ·
    d³) and O(cells). At most 256 cells have their own Gaussian; ``overflows["gaussians"]`` counts
    the records learned in other cells. `explain_one` uses the chain rule: each feature is
    conditioned on those before it in `features`. Contributions depend on that order, their sum does
    not. Source: Zaki and Meira, Data Mining and Machine Learning, chapter 18.1 and its exercise Q1;
    the conditional form is the location model of Olkin and Tate 1961.

    Examples
    --------
    >>> from stream import MixedBayes
    >>> model = MixedBayes()
    >>> for age, car, y in [(25, "sports", "L"), (20, "suv", "H"), (26, "sports", "L")]:
    ...     model.learn_one({"age": age, "car": car}, y)
    >>> model.predict_one({"age": 24, "car": "sports"})
    'L'
    """

    truths: ClassVar[str] = "categorical"
    kinds: ClassVar[frozenset[Kind]] = frozenset(("numeric", "binary", "categorical"))

    def __init__(
        self,
        conditional: bool = False,
        thin: int = 10,
        alpha: float = 1.0,
        covariance: Literal["full", "diagonal"] = "full",
        variance: Literal["ml", "sample"] = "ml",
        ridge: float = 1e-9,
        missing: Missing = "conditional",
        domains: Domains = None,
        priors: Mapping[Label, float] | None = None,
        half_life: float | None = None,
        m: float | None = None,
        p: Shares = None,
        smooth: Literal["all", "zeros"] = "all",
    ) -> None:
        self.conditional = flag("conditional", conditional)
        self.thin = whole("thin", thin, 2, int(HEAVIEST))
        self.covariance = one_of("covariance", covariance, ("full", "diagonal"))
        self.variance = one_of("variance", variance, ("ml", "sample"))
        self.ridge = number("ridge", ridge, 0.0)
        self.missing = one_of("missing", missing, get_args(Missing))
        self.domains = check_domains(domains)
        self.alpha, self.m, self.p, self.smooth = check_estimate(alpha, m, p, smooth, self.domains)
        self.priors = check_priors(priors)
        self.half_life = check_half_life(half_life)
        if conditional and half_life is not None:
            raise SchemaError("half_life and conditional = true cannot be combined; leave one out")
        self._begin()

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws that do not apply to this learner, with the reason."""
        out = dict(super().not_applicable)
        if self.covariance == "full":
            why = "how a gap is filled depends on what was learned before"
            laws = ("merging_equals_learning_both", "unlearning_is_the_inverse_of_learning")
            out |= dict.fromkeys((*laws, "weight_two_is_twice"), why)
        if self.conditional:
            out["weight_two_is_twice"] = "a cell is thin by its number of records, not their weight"
        return out

    def _new_parts(self) -> tuple[Part, ...]:
        ddof = float(self.variance == "sample")
        diagonal = self.covariance == "diagonal"
        settings = Settings(ddof, self.ridge, 0.0, self.missing == "conditional", diagonal)
        self._table = JointPart(self.alpha, self.domains, m=self.m, p=self.p, smooth=self.smooth)
        if self.conditional:
            self._numbers: Part = ConditionalPart(self.covariance, settings, self.thin)
        else:
            self._numbers = CovariancePart(self.covariance, settings)
        return (self._table, self._numbers)

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows with a number in a field of categories, or a category in a field of numbers."""
        numeric: Collection[str] = self._numbers.features
        return super().refusals(rows) | conflicts(rows, numeric, self._table.features)
