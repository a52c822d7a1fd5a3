"""Probabilities of classes where only a share of the labels comes.

Users flag some of the spam, and silence says that the rest is ham. So a model learns how probable a
flag is, and not how probable spam is. If each spam is flagged with the same probability c, whatever
else it is, then P(spam | x) = P(flag | x) / c.

Source: Elkan and Noto 2008, Learning Classifiers from Only Positive and Unlabeled Data, lemma 1.
"""

from __future__ import annotations

import numpy as np

from stream.data.block import Floats

__all__ = ["of_classes"]


def of_classes(proba: Floats, silent: int, frequency: float) -> Floats:
    """The probability of each class from the probability of each label.

    Parameters
    ----------
    proba
        float64, (n, C): the probabilities of the labels. Each row sums to 1, or is 0.
    silent
        The class of what nobody labels.
    frequency
        c, the share of the records of every other class that is labelled, 0.001 to 1.

    Returns
    -------
    ndarray
        float64, (n, C). Probabilities of other classes are divided by c, and if that is more than 1
        together, by their sum. The silent class has the rest. A row of 0 stays 0.

    Examples
    --------
    >>> of_classes(np.array([[0.9, 0.1], [0.4, 0.6]]), silent=0, frequency=0.5).tolist()
    [[0.8, 0.2], [0.0, 1.0]]
    """
    told = proba.any(axis=1)
    others = 1.0 - proba[:, silent]  # not a sum: its last bits would depend on the later classes
    by = np.maximum(frequency, others)
    out: Floats = proba / by[:, None]
    out[:, silent] = np.where(told, 1.0 - others / by, 0.0)
    return out
