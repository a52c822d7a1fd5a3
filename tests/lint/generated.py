"""Pages and dashboards that are made from the code are the current ones."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from pydantic import BaseModel

from consumers.config import Config
from consumers.config.load import section_of
from tests.lint.sources import ROOT, Finding, Rules

__all__ = ["RULES", "files"]

SCRIPT = "docs/make_pages.py"
DASHBOARDS = "docker/grafana/dashboards"


def files() -> list[str]:
    """What is made, and the sections of the configuration."""
    sections = {where(section, "")[0] for section in sections_of_the_configuration()}
    return [*made(), *sections]


def made() -> dict[str, str]:
    """Each file that docs/make_pages.py writes, with what it would write."""
    return {
        str(path.relative_to(ROOT)): text
        for path, text in runpy.run_path(str(ROOT / SCRIPT))["made"]().items()
    }


def current(texts: Mapping[str, str]) -> Iterator[Finding]:
    """The committed files are what the code would write, and there are no others."""
    for path, text in texts.items():
        committed = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else ""
        pairs = zip_longest(committed.splitlines(), text.splitlines())
        differing = [line for line, (old, new) in enumerate(pairs, 1) if old != new]
        if committed != text:
            line = differing[0] if differing else 1
            yield Finding(path, line, f"is not what the code would write; run {SCRIPT}")
    for stored in (ROOT / DASHBOARDS).iterdir():
        path = str(stored.relative_to(ROOT))
        if path not in texts:
            yield Finding(path, 1, f"is not written by {SCRIPT}; remove it")


def sections_of_the_configuration() -> list[type[BaseModel]]:
    """The model of each section."""
    found = (section_of(field.annotation) for field in Config.model_fields.values())
    return [section for section in found if section is not None]


def where(section: type[BaseModel], key: str) -> tuple[str, int]:
    """The file and the line where a key of a section is defined, in it or in what it inherits."""
    kinds = (kind for kind in section.__mro__ if key in inspect.get_annotations(kind))
    kind = next(kinds, section)
    lines, first = inspect.getsourcelines(kind)
    at = next((n for n, line in enumerate(lines) if line.startswith(f"    {key}: ")), 0)
    return str(Path(inspect.getfile(kind)).relative_to(ROOT)), first + at


def meanings(sections: list[type[BaseModel]]) -> Iterator[Finding]:
    """docs/config.md says of every key what it is, and why its default is what it is."""
    for section in sections:
        for key, field in section.model_fields.items():
            if len((field.description or "").split(". ")) < 2:
                text = f"the description of {key} needs a sentence of what it is, and one of why"
                yield Finding(*where(section, key), f"{text} its default is what it is")


RULES: Rules = {current: made, meanings: sections_of_the_configuration}
