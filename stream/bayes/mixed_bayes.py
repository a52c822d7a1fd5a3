"""Full Bayes on mixed attributes: a joint table of the categories, and a Gaussian of the
numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar, Literal, get_args

from stream.bayes.categories import Domains, check_domains
from stream.bayes.classifier import BayesClassifier, check_priors
from stream.bayes.conditional import ConditionalPart
from stream.bayes.covariance import CovariancePart, Missing, Settings
from stream.bayes.joint import JointPart
from stream.bayes.part import Part
from stream.bayes.smoothing import Shares, check_estimate
from stream.data.block import Rows
from stream.data.parameters import check_half_life, flag, number, one_of, whole
from stream.data.rows import conflicts
from stream.data.schema import HEAVIEST, Kind, Label
from stream.errors import InvalidRecordError, SchemaError
from stream.learner.registry import Facts, registered

__all__ = ["MixedBayes"]


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
