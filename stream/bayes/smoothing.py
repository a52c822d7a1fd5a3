"""Smoothing of counts of categories: a pseudo-count, or the m-estimate with a prior for each value.

Rule: a mapping p is the prior distribution of a feature. So its keys are the feature's domain,
unless `domains` has the feature.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from stream.bayes.categories import Domains, canonical, check_domains
from stream.data.parameters import mapping, number, one_of, shown
from stream.errors import SchemaError

__all__ = ["Estimate", "Shares", "check_estimate"]

Shares = float | Mapping[str, Mapping[Any, float]] | None


class Estimate(NamedTuple):
    """The parameters that `check_estimate` has checked, under their names."""

    alpha: float
    m: float | None
    p: Shares
    smooth: Literal["all", "zeros"]


def check_estimate(
    alpha: float, m: float | None, p: Shares, smooth: str, domains: Domains
) -> Estimate:
    """Check the four parameters of smoothing.

    Parameters
    ----------
    domains
        The checked domains. Values in `p` must be in them.

    Raises
    ------
    SchemaError
        A parameter is out of range, `p` is given without `m`, or the priors of a feature do not sum
        to 1.

    Examples
    --------
    >>> check_estimate(1, 2, {"sky": {"sunny": 0.75, "rainy": 0.25}}, "all", None).m
    2.0
    """
    if p is not None and m is None:
        raise SchemaError(
            f"p = {shown(p)} needs m, because it belongs to the m-estimate; set m or leave p out"
        )
    return Estimate(
        number("alpha", alpha, 0.0),
        None if m is None else number("m", m, 0.0),
        _priors_of_values(p, domains) if isinstance(p, Mapping) else _one_prior(p),
        "zeros" if one_of("smooth", smooth, ("all", "zeros")) == "zeros" else "all",
    )


def _one_prior(p: Any) -> float | None:
    return None if p is None else number("p", p, 0.0, 1.0)


def _priors_of_values(p: Mapping[Any, Any], domains: Domains) -> Mapping[str, Mapping[Any, float]]:
    """The priors of each feature as floats, after a check that they sum to 1 over its values."""
    out: dict[str, dict[Any, float]] = {}
    for name, given in p.items():
        where = f"p[{name!r}]"
        shares = mapping(where, given, "value to its prior probability")
        if not shares:
            raise SchemaError(f"{where} must have at least one value, got {{}}")
        check_domains({name: list(shares)}, "p")
        plain = {v: number(f"{where}[{v!r}]", share, 0.0, 1.0) for v, share in shares.items()}
        total = sum(plain.values())
        if abs(total - 1) > 0.01:
            raise SchemaError(f"{where} must sum to 1, to two digits, got {total:g}")
        if name in (domains or {}):
            known = {canonical(name, value) for value in (domains or {})[name]}
            for value in plain:
                if canonical(name, value) not in known:
                    raise SchemaError(f"{where}: {value!r} is not in domains[{name!r}]")
        out[name] = plain
    return out
