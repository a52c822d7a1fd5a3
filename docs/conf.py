"""The site of the documentation. `python -m sphinx -W -n docs build/docs` builds it.

Rule: a page is Markdown with relative links that also reads well on a code forge. Only the pages
with trees of pages (docs/index.md, docs/*/index.md) and the API (docs/reference/) need the site.
"""

from __future__ import annotations

from importlib.metadata import version as installed

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import headwater
import stream

project = "headwater"
author = "the authors of headwater"
version = release = installed("headwater")

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
html_theme = "furo"
html_title = f"headwater {version}"
html_copy_source = False
html_show_copyright = False
highlight_language = "text"  # of a block without a language: the output of a command

myst_heading_anchors = 6  # `page.md#heading`, with the anchors that a code forge makes
myst_enable_extensions = ["html_image"]  # <img width=…> of pages that a forge shows too

default_role = "code"  # `x` in a docstring is code, which need not be a documented name
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
numpydoc_show_class_members = False  # autodoc does
maximum_signature_line_length = 80

# Not checked: names of other projects (the build would have to read their sites), types that are
# only in signatures (internal, or imported for the type checker), words of docstrings ("mapping").
nitpick_ignore_regex = [
    ("py:.*", r"(collections|datetime|numpy|np|pathlib|river|ssl|typing)\..*"),
    ("py:class", r"NDArray|ConfusionMatrix|DeadLetterReason|Id|Path"),
    ("py:class", r"(stream|consumers)\.\w+\.\w+\..+|[a-z ]+"),
]

GROUPS = {"learners": headwater.Learner, "errors": headwater.StreamError}


class Public(SphinxDirective):
    """`{public} learners`: the names of `stream` of this group, as `headwater` has them.

    A page would otherwise name each learner again. `records` are the names of no other group.
    """

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        (wanted,) = self.arguments
        names = [name for name in stream.__all__ if group(getattr(headwater, name)) == wanted]
        names.sort(
            key=lambda name: getattr(headwater, name) is not GROUPS.get(wanted)
        )  # base first
        lines = [line for name in names for line in documented(name)]
        return self.parse_text_to_nodes("\n".join(lines))


def group(thing: object) -> str:
    """The group of `GROUPS` that a public object of `stream` belongs to, or `records`."""
    bases = GROUPS.items() if isinstance(thing, type) else ()
    return next((name for name, base in bases if issubclass(thing, base)), "records")


def documented(name: str) -> list[str]:
    """The Markdown that documents a name of `stream`."""
    thing = getattr(headwater, name)
    if isinstance(thing, type):
        above = []  # of Learner also what it inherits, but river's clone and mutate
        if thing is headwater.Learner:
            above = ["   :inherited-members:", "   :exclude-members: clone, mutate"]
        options = ["   :members:", *above]
        return ["```{eval-rst}", f".. autoclass:: headwater.{name}", *options, "```", ""]
    return ["```{eval-rst}", f".. autodata:: headwater.{name}", "```", ""]


def setup(app: Sphinx) -> None:
    app.add_directive("public", Public)
