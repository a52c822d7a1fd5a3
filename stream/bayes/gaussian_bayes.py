"""Full Bayes on numeric features: each class has a mean vector and a covariance matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, get_args

import numpy as np

from stream.bayes.classifier import BayesClassifier, check_priors
from stream.bayes.covariance import Covariance, CovariancePart, Missing, Settings
from stream.bayes.part import Part
from stream.data import parameters
from stream.data.block import Floats
from stream.data.parameters import check_half_life
from stream.data.schema import LARGEST, Kind, Label, number, plain_label
from stream.errors import NotSupportedError, SchemaError
from stream.learner.predictions import LinearView
from stream.learner.registry import Facts, registered

__all__ = ["GaussianBayes"]


@registered(
    Facts(
        model="numbers, jointly normal within a class: full, pooled or diagonal covariance",
        cost="C·D²; D² (with gaps D³)",
        memory="C·D²",
        merge_unlearn="if no value is missing",
        missing="predict: density of the present values; learn: the conditional mean, or the "
        "record is left out and counted",
        source="Zaki and Meira 18.1",
        reads={"numeric": "used", "binary": "the numbers 0 and 1"},
    )
)
class GaussianBayes(BayesClassifier):
    """Full Bayes on numeric features: jointly normal given the class, one record at a time.

    Parameters
    ----------
    covariance
        ``"full"``: a covariance matrix for each class (quadratic discriminant analysis).
        ``"pooled"``: one matrix about the class means (linear discriminant analysis).
        ``"diagonal"``: variances only (naive Bayes). ``"pooled_diagonal"``: variances only, one for
        each feature.
    ridge
        This share of a feature's *total* variance, over all classes, is added to its variance in
        each class, so that no matrix is singular and units do not matter. 0 gives the exact
        estimate. A class with a singular matrix (fewer records than features, a constant feature,
        or collinear features) then has its density only on its support: the directions in which it
        varies, with the pseudo-determinant of the matrix, in the units of the features. Elsewhere
        the density is 0.
    shrinkage
        From 0 to 1. Covariances of different features are multiplied by 1 - shrinkage. Above 0,
        a prediction costs O(C · D³).
    variance
        ``"ml"`` divides sums of products by n (maximum likelihood), ``"sample"`` by n - 1, or by n
        - C if they are pooled over C classes.
    priors
        Label, or its text ("true", "1"), to prior probability. A class without an entry has prior
        0. None: priors are learned.
    missing
        How a record with gaps is learned. ``"conditional"``: each gap is filled with its mean given
        the record's other features in its class (with the ridge on these), and the conditional
        covariance (without the gap's own ridge) is added; O(D³). ``"complete"``: only the totals of
        the features learn it, and ``overflows["incomplete"]`` counts it. With independent features
        a gap needs no filling.
    half_life
        Number of records after which what was learned has half its weight. None: no fading.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        Features in the order they were first learned.
    means : dict
        Label to a dict from feature to its mean.
    covariances : dict
        Label to a dict from feature to a dict from feature to their covariance, without ridge and
        shrinkage. With independent features, only the diagonal.
    rebuilds : int
        How often unlearning lost so many digits that a factor was rebuilt from its products.

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: an infinite number, a text, a number beyond 1e100.
    NotSupportedError
        By `unlearn_one`: the record had gaps and its effect was not kept. By `linear_view`: the
        log-odds are not linear.

    Notes
    -----
    O(C · D²) to predict, O(D²) to learn, O(D³) to unlearn, for C classes and D features. A
    prediction uses the density of the observed features; each gap costs O(D²) more. Memory O(C ·
    D²), O(D²) pooled. At most 512 features (65,536 independent ones) are learned;
    ``overflows["features"]`` counts the others.

    The state has the Cholesky factor of each sum of products of x minus the first learned value,
    with the ridge on its diagonal. Learning updates it by rotations (Golub and Van Loan, Matrix
    Computations, 6.5.4). It is recomputed only if a ridge falls below a sixteenth. On nearly
    collinear columns a factor has twice the digits of the sums. ``covariances`` are the sums
    without the ridge, up to rounding of both. The ridge is rounded to 1 to 6 binary digits, so that
    it seldom changes. It is within 1/64 of the nominal ridge if there are at least 32 records for
    each feature, and within a third if there are fewer records than features and more than 128
    features. It is a function of what was learned, so predictions do not depend on the order of
    features or records. Source: Zaki and Meira, Data Mining and Machine Learning, chapter 18.1.

    A feature that is constant so far, or was never learned, is not evidence. If a class has never
    had a feature, the feature's distribution over all classes is used for it. A feature that comes
    later than others in a class has exact moments from then on. Its correlations start at 0 and
    approach their values as its weight approaches that of the others. Every such matrix is positive
    semidefinite.

    `explain_one` uses the chain rule: each feature is conditioned on those before it. The
    contributions depend on the order of `features` (within one record by name), their sum does not.

    For records without gaps, `merge` and `unlearn_one` are exact to about 1e-9 of the largest
    magnitude, in any order. The value that fills a gap depends on what was learned before. A record
    is not unlearned if no set of records with these moments can contain it, up to a millionth.

    Examples
    --------
    >>> from stream import GaussianBayes
    >>> model = GaussianBayes()
    >>> for i in range(8):
    ...     model.learn_one({"a": i, "b": i + i % 2}, "along")
    ...     model.learn_one({"a": i, "b": 8 - i + i % 2}, "across")
    >>> model.predict_one({"a": 1.0, "b": 1.5}), model.predict_one({"a": 1.0, "b": 7.5})
    ('along', 'across')
    >>> model.explain_one({"a": 1.0, "b": 1.5}).top(1)[0][0]
    'b'
    """

    strings: ClassVar[str] = "refused"
    kinds: ClassVar[frozenset[Kind]] = frozenset(("numeric", "binary"))

    def __init__(
        self,
        covariance: Covariance = "full",
        ridge: float = 1e-9,
        shrinkage: float = 0.0,
        variance: str = "ml",
        priors: Mapping[Label, float] | None = None,
        missing: Missing = "conditional",
        half_life: float | None = None,
    ) -> None:
        covariance = parameters.one_of("covariance", covariance, get_args(Covariance))
        ridge = parameters.number("ridge", ridge, 0.0)
        shrinkage = parameters.number("shrinkage", shrinkage, 0.0, 1.0)
        variance = parameters.one_of("variance", variance, ("ml", "sample"))
        missing = parameters.one_of("missing", missing, get_args(Missing))
        priors = check_priors(priors)
        half_life = check_half_life(half_life)
        self.covariance = covariance
        self.ridge = ridge
        self.shrinkage = shrinkage
        self.variance = variance
        self.priors = priors
        self.missing = missing
        self.half_life = half_life
        self._begin()

    @property
    def not_applicable(self) -> Mapping[str, str]:
        out = dict(super().not_applicable)
        if not self.covariance.endswith("diagonal"):
            why = "how a gap is filled depends on what was learned before"
            laws = ("merging_equals_learning_both", "unlearning_is_the_inverse_of_learning")
            out |= dict.fromkeys((*laws, "weight_two_is_twice"), why)
        elif self.ridge == 0:
            why = "without a ridge, rounding decides what is a point after unlearning"
            out["unlearning_is_the_inverse_of_learning"] = why
        return out

    def _new_parts(self) -> tuple[Part, ...]:
        settings = Settings(
            float(self.variance == "sample"),
            float(self.ridge),
            float(self.shrinkage),
            self.missing == "conditional",
            self.covariance.endswith("diagonal"),
        )
        self._joint = CovariancePart(self.covariance, settings)
        return (self._joint,)

    @classmethod
    def from_parameters(
        cls,
        means: Mapping[Label, Any],
        covariances: Mapping[Label, Any],
        priors: Mapping[Label, float] | None = None,
        **parameters: Any,
    ) -> Self:
        """A classifier with the given distributions.

        Parameters
        ----------
        means
            Label to a mapping from feature to mean, or to a sequence of means. Features of a
            sequence are called x1, x2, … .
        covariances
            Label to a matrix, as rows in the order of the means, or as nested mappings.
        priors
            Label to prior probability. None: equal priors.
        **parameters
            As for the class, except that the default of the ridge is 0.

        Notes
        -----
        If it learns more records, each class counts as one record (two with ``variance="sample"``).

        Examples
        --------
        >>> from stream import GaussianBayes
        >>> model = GaussianBayes.from_parameters(
        ...     means={"c1": (1, 3), "c2": (5, 5)},
        ...     covariances={"c1": [[5, 3], [3, 2]], "c2": [[2, 0], [0, 1]]},
        ...     priors={"c1": 0.5, "c2": 0.5},
        ... )
        >>> model.predict_one({"x1": 3, "x2": 4})
        'c1'
        """
        model = cls(priors=priors, **{"ridge": 0.0, **parameters})
        if not means or set(means) != set(covariances):
            raise SchemaError(
                f"means and covariances must have the same classes, got {list(means)} and "
                f"{list(covariances)}"
            )
        table = {plain_label(label): _named(label, mean) for label, mean in means.items()}
        names = sorted(next(iter(table.values())))
        for label, mean in table.items():
            if sorted(mean) != names:
                raise SchemaError(
                    f"means[{label!r}] must have the features {names}, got {list(mean)}"
                )
        matrices = [_matrix(label, covariances[label], list(table[label])) for label in table]
        order = [[list(mean).index(name) for name in names] for mean in table.values()]
        matrices = [m[np.ix_(o, o)] for m, o in zip(matrices, order, strict=True)]
        model._widen_to(list(table))
        model._joint.become(
            names, np.array([[mean[f] for f in names] for mean in table.values()]), matrices
        )
        return model

    def _widen_to(self, labels: list[Label]) -> None:
        self._admit_classes(labels)
        self._widen(len(labels))
        self._prior.weight[:] = 1.0 + self._joint.settings.ddof

    @property
    def means(self) -> dict[Label, dict[str, float]]:
        s = self._joint.moments
        features = list(enumerate(self._joint.features))
        return {
            label: {
                f: float(s.mean[c, j] / s.scale[j] + s.anchor[j])
                for j, f in features
                if s.n[c, j] > 0
            }
            for c, label in enumerate(self.classes)
        }

    @property
    def covariances(self) -> dict[Label, dict[str, dict[str, float]]]:
        seen = self._joint.moments.n > 0
        out: dict[Label, dict[str, dict[str, float]]] = {}
        for c, label in enumerate(self.classes):
            matrix = self._joint.covariance(c)
            names = [(j, f) for j, f in enumerate(self._joint.features) if seen[c, j]]
            if matrix.ndim == 1:
                out[label] = {f: {f: float(matrix[j])} for j, f in names}
            else:
                out[label] = {f: {g: float(matrix[j, k]) for k, g in names} for j, f in names}
        return out

    @property
    def rebuilds(self) -> int:
        return int(self._joint.moments.rebuilt[0])

    def linear_view(self, label: Label | None = None, against: Label | None = None) -> LinearView:
        """The log-odds of two classes as bias and weights, if the covariance is pooled.

        Parameters
        ----------
        label, against
            Two known classes. By default the first two that were learned.

        Raises
        ------
        NotSupportedError
            The covariance is not pooled or is singular, or only one of the classes has had some
            feature.
        NotLearnedError
            Fewer than two classes are known, or a given class is not known.
        """
        if not self.covariance.startswith("pooled"):
            raise NotSupportedError(
                f'a linear view needs a pooled covariance, got "{self.covariance}"'
            )
        a, b = self._compared(label, against, None)
        (_, prior), *_ = self._terms(self.columns([{}]))
        weights, bias = self._joint.line(a, b)
        named = dict(zip(self._joint.features, weights.tolist(), strict=True))
        bias += float(prior[a]) - float(prior[b])
        return LinearView(self.classes[a], self.classes[b], bias, named)


def _named(label: Label, mean: Any) -> dict[str, float]:
    """Feature to mean, from a mapping or a sequence."""
    pairs = mean.items() if isinstance(mean, Mapping) else enumerate(mean, start=1)
    named = {
        str(k) if isinstance(mean, Mapping) else f"x{k}": number(f"means[{label!r}]", v)
        for k, v in pairs
    }
    if not all(v == v for v in named.values()):
        raise SchemaError(f"means[{label!r}] must be numbers, got {mean!r}")
    return named


def _matrix(label: Label, given: Any, names: list[str]) -> Floats:
    """A checked covariance matrix over `names`."""
    if isinstance(given, Mapping):
        rows = {str(f): {str(g): v for g, v in row.items()} for f, row in given.items()}
        given = [[rows.get(f, {}).get(g, 0.0) for g in names] for f in names]
    matrix = np.array(given, dtype=np.float64)
    d = len(names)
    if matrix.shape != (d, d) or not (np.abs(matrix) <= LARGEST**2).all():
        raise SchemaError(f"covariances[{label!r}] must be {d} x {d} numbers, got {given!r}")
    scale = np.sqrt(np.abs(np.diag(matrix)))
    scale[scale == 0.0] = 1.0
    correlation = matrix / np.outer(scale, scale)
    lowest = float(np.linalg.eigvalsh(correlation)[0]) if d else 0.0
    if not np.allclose(correlation, correlation.T, atol=1e-9) or lowest < -1e-9:
        raise SchemaError(
            f"covariances[{label!r}] must be symmetric and positive semidefinite, got {given!r}"
        )
    return matrix
