"""The configuration of a spam filter, as commented TOML. Pure."""

from __future__ import annotations

import json

from consumers.base.errors import ConfigError
from stream.decision.rule import Budget

__all__ = ["FORMATS", "MIN_LEARNED", "spam_filter"]

MIN_LEARNED = 5
UNSURE = 0.5
MIN_PROBABILITY = 0.7
CORRECTED = "corrections = true  # the other label replaces the first one"
# Name to what the observations are, and the lines of [input] and [features].
FORMATS = {
    "mail": (
        "raw mails; in requests a mail is base64 in the field `mail`",
        ['format = "mail"'],
        [],
    ),
    "text": ("one text each", ['format = "text"'], []),
    "json": (
        "JSON with a field `text`",
        ['id = "id"'],
        ["[features]", 'text = "text"', ""],
    ),
}


def spam_filter(name: str, what: str, rate: float, *, corrections: bool) -> str:
    """The configuration.

    Parameters
    ----------
    name
        Of the service.
    what
        One of `FORMATS`.
    rate
        The largest share of ham that may be called spam.
    corrections
        Whether the model can replace a label by the other one.

    Raises
    ------
    ConfigError
        The format or the rate is not valid.

    Examples
    --------
    >>> spam_filter("spam", "mail", 0.01, corrections=True).splitlines()[3]
    'name = "spam"'
    """
    if what not in FORMATS:
        raise ConfigError(
            f"--spam: expected --format {', '.join(FORMATS)}, got {what!r}; give one of them"
        )
    try:
        budget = Budget("spam", rate, MIN_LEARNED, UNSURE, MIN_PROBABILITY)
    except ValueError as error:
        raise ConfigError(f"--budget: {error}; give a share such as 0.01") from None
    return "\n".join(_lines(name, what, budget, corrections=corrections))


def _lines(name: str, what: str, budget: Budget, *, corrections: bool) -> list[str]:
    about, keys, features = FORMATS[what]
    topic = "mail" if what == "mail" else "messages"
    shown = json.dumps(name)
    return [
        f"# Written by `headwater init --spam`: a filter of {topic}. Next: docs/howto/spam.md.",
        "# Every key and the reason of its default: docs/config.md.",
        "",
        f"name = {shown}",
        "",
        "[input]",
        f"transport = {json.dumps(f'sqlite:{name}.db')}",
        f"observations = {json.dumps(f'{name}-{topic}')}  # {about}",
        f"labels = {json.dumps(f'{name}-labels')}  # {{id, label}}: spam or ham",
        *keys,
        "",
        *features,
        "[labels]",
        *([CORRECTED] if corrections else []),
        'horizon = "30d"  # how late a label may come',
        "",
        "[model]",
        'type = "spam"',
        "max_classes = 2  # any other label than these two is refused",
        "",
        "[decision]",
        "# The action is spam, ham, or none: unsure. At most this share of ham is called spam,",
        f"# and nothing before {budget.needed:,} ham were learned. One whose words speak for spam",
        "# and that may not be called so is unsure, and so is one without a known word.",
        "# docs/budget.md",
        f'max_false_positive_rate = {{label = "spam", rate = {budget.rate:g}, unsure = {UNSURE}, '
        f"min_learned = {MIN_LEARNED}, min_probability = {MIN_PROBABILITY}}}",
        "",
        "[snapshots]",
        f"directory = {json.dumps(f'{name}-snapshots')}",
        "",
        "[http]",
        "port = 8321  # the live page, /metrics, and the requests; on this machine only",
        "",
        "[serve]",
        'timeout = "10s"',
        "# Elsewhere than on this machine requests need tokens:",
        '# read_token = "${file:read-token}"',
        '# write_token = "${file:write-token}"',
        "",
    ]
