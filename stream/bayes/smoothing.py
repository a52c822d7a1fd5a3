"""How counts of categories are smoothed: a pseudo-count, or the m-estimate with a prior a value.

Rule: a mapping p gives a feature's prior distribution, so its keys are all the values that the
feature can have: they are its domain, unless `domains` gives one.
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
    """What `check_estimate` found to be usable, under the parameters' own names."""

    alpha: float
    m: float | None
    p: Shares
    smooth: Literal["all", "zeros"]


def check_estimate(
    alpha: float, m: float | None, p: Shares, smooth: str, domains: Domains
) -> Estimate:
    """The four parameters of smoothing, checked.

    Parameters
    ----------
    domains
        The checked domains; what `p` names must lie in them.

    Raises
    ------
    SchemaError
        One is out of range, `p` comes without `m`, or the priors of a feature do not sum to 1.

    Examples
    --------
    >>> check_estimate(1, 2, {"sky": {"sunny": 0.75, "rainy": 0.25}}, "all", None).m
    2.0
    """
    if p is not None and m is None:
        raise SchemaError(
            f"p is of the m-estimate and needs m; give m, or leave out p = {shown(p)}"
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
    """Each feature's priors as floats, if they are those of its values and sum to 1."""
    out: dict[str, dict[Any, float]] = {}
    for name, given in p.items():
        where = f"p[{name!r}]"
        shares = mapping(where, given, "value to its prior probability")
        if not shares:
            raise SchemaError(f"{where} must name at least one value, got {{}}")
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
