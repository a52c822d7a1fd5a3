"""Each rule finds something, and what it finds is a line: a rule that cannot fail is no rule."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from inspect import getsourcelines
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from consumers.base.errors import DEAD_LETTER_REASONS
from tests.faults.mutants import Mutant
from tests.lint import (
    __main__,
    architecture,
    docs,
    faults,
    generated,
    prose,
    purity,
    spelling,
    style,
    types,
)
from tests.lint.sources import ROOT, Finding, Source

JOIN = "stream/join/a.py"
PURE = "stream/bayes/a.py"
SHARD = "consumers/shard/a.py"
KERNEL = "stream/bayes/_kernels/a.py"
PAGE = "docs/a.md"
POINTS = Source(faults.POINTS, 'POINTS = (\n    "early",\n    "late",\n)')


class Section(BaseModel):
    """A section of a configuration with a key that says too little."""

    size: int = Field(default=3, description="How many.")


SIZE = getsourcelines(Section)[1] + 3


def drawing(tree: str, *paths: str) -> tuple[Source, Sequence[Source]]:
    """A page with this tree, and files."""
    page = Source("docs/ARCHITECTURE.md", f"Rooms.\n\n```\n{tree}\n```\n")
    return page, [Source(path, "") for path in paths]


def measured(microseconds: str) -> tuple[Source, Source]:
    """A page, and the one that it has its figures from."""
    rows = [
        f"| GaussianNB, d = 8 | river | 760 × | {microseconds} µs |",
        "| auto, d = 8 | all | b | 5 µs |",
    ]
    text = """It learns in 0.1 µs, 760 × as fast as
        river's loop. `auto`, which runs eight learners, needs 5 µs."""
    return Source("README.md", f"# A\n\n{text}"), Source(PAGE, "\n".join(rows))


TERMS = "| fence | b | |\n| oust | b | `fence` |\n" + "".join(
    f"| t{n} | b | |\n" for n in range(59)
)

# Each rule: what it is given, and how each of its findings begins, after the path of the last file.
CASES: dict[Any, list[tuple[Any, list[str]]]] = {
    architecture.tree: [
        (
            drawing(
                "stream/   PURE\n  gone.py  nothing\n  old/   nothing",
                "stream/__init__.py",
                "stream/new.py",
                "stream/bare/__init__.py",
            ),
            [
                "docs/ARCHITECTURE.md:5: the tree names stream/gone.py, which does not exist",
                "docs/ARCHITECTURE.md:6: the tree has stream/old/, which does not exist",
                "stream/bare/__init__.py:1: its folder is not in the tree",
                "stream/new.py:1: is not in the tree",
            ],
        ),
        (drawing("stream/   PURE\n  new.py  why", "stream/__init__.py", "stream/new.py"), []),
    ],
    architecture.order: [
        (
            [
                Source(
                    "stream/learner/a.py",
                    "from stream.data.block import Block\n"
                    "from stream.bayes import GaussianNB\n"
                    "from ..block import Block\n"
                    "from stream import GaussianNB\n"
                    "def f(): import consumers.base.errors",
                ),
                Source("consumers/shard/a.py", "from stream.join.join import LabelJoin"),
                Source("consumers/shard/b.py", "from consumers.service.runner import run"),
                Source("consumers/shard/c.py", "import headwater.client"),
                Source("consumers/attic/a.py", ""),
            ],
            [
                "consumers/attic/a.py:1: 'attic' is no room of consumers",
                "consumers/shard/b.py:1: imports consumers.service.runner.run: service comes below",
                "consumers/shard/c.py:1: imports headwater.client: consumers never imports",
                "stream/learner/a.py:2: imports stream.bayes.GaussianNB: bayes comes below learner",
                "stream/learner/a.py:3: imports ..block.Block: a relative import hides",
                "stream/learner/a.py:4: imports stream.GaussianNB: 'GaussianNB' is no room",
                "stream/learner/a.py:5: imports consumers.base.errors: stream never imports",
            ],
        ),
    ],
    architecture.circles: [
        (
            [
                Source("stream/a.py", "import stream.b"),
                Source("stream/b.py", "\ndef f():\n    from stream.c.d import x"),
                Source("stream/c/d.py", "from stream import a"),
                Source("stream/__init__.py", ""),
            ],
            ["stream/c/d.py:1: imports in a circle: stream.a <- stream.c.d <- stream.b <- st"],
        ),
        ([Source("stream/a.py", "import stream.b"), Source("stream/b.py", "")], []),
    ],
    architecture.sizes: [
        ([Source(PURE, "x = 1\n" * 601)], [f"{PURE}:601: the file has 601 lines"]),
        ([Source(PURE, "\ndef f():\n" + "    x\n" * 70)], [f"{PURE}:2: f has 71 lines"]),
        ([Source(PURE, "def f():\n" + "    x\n" * 69)], []),
    ],
    architecture.vague: [
        ([Source("stream/bayes/_utils.py", "")], ["stream/bayes/_utils.py:1: '_utils' says"]),
    ],
    architecture.classes: [
        (
            [Source(path, "class Window: ...\nclass _Row: ...") for path in (SHARD, PURE)],
            [f"{PURE}:1: {SHARD} has a public class Window too"],
        ),
    ],
    architecture.described: [
        ([Source(PURE, "x = 1"), Source(JOIN, '"""A rule."""')], [f"{PURE}:1: the file has no"]),
    ],
    architecture.documented: [
        (
            [
                Source(PURE, "def f(): ...\n\n\nclass A: ...\ndef _g(): ..."),
                Source(SHARD, "def f(): ..."),
            ],
            [f"{PURE}:1: f is public", f"{PURE}:4: A is public"],
        ),
    ],
    architecture.privates: [
        ([Source(JOIN, "join._waiting.pop(id_)")], [f"{JOIN}:1: _waiting is private"]),
        ([Source(JOIN, "from stream.join.join import _same")], [f"{JOIN}:1: _same is private"]),
        ([Source(JOIN, "class A:\n def __init__(self): self._x = 1\ny._x")], []),
        ([Source(PURE, "join._waiting")], []),
    ],
    architecture.schemes: [
        ([Source(SHARD, 'url.startswith("kafka:")')], [f"{SHARD}:1: compares with 'kafka:'"]),
        ([Source(SHARD, 'if scheme == "sqlite": pass')], [f"{SHARD}:1: compares with 'sqlite'"]),
        ([Source(SHARD, 'url = f"sqlite:{name}.db"')], []),
    ],
    purity.world: [
        (
            [
                Source(
                    PURE, "import time\nfrom os.path import join\nfrom io import BytesIO\nopen(x)"
                ),
                Source("stream/kernel/a.py", "import os"),
                Source(SHARD, "import os"),
            ],
            [
                f"{PURE}:1: the core imports time",
                f"{PURE}:2: the core imports os.path.join",
                f"{PURE}:4: the core calls open()",
            ],
        ),
    ],
    purity.mappings: [
        (
            [Source(purity.MAPPINGS, "mmap.mmap(-1, 8)\nmmap.mmap(file, 8)")],
            [f"{purity.MAPPINGS}:2: the core maps a file"],
        ),
    ],
    purity.seeds: [
        (
            [Source(PURE, "np.random.default_rng(7)\nnp.random.default_rng()\nrandom.random()")],
            [
                f"{PURE}:2: np.random.default_rng has no seed",
                f"{PURE}:3: random.random has no seed",
            ],
        ),
    ],
    purity.decoders: [
        (
            [
                Source(
                    SHARD,
                    "import msgspec\nclass Header(msgspec.Struct):\n    n: int\n"
                    "MADE = msgspec.json.Decoder(Header)\n"
                    "def read():\n"
                    "    msgspec.json.decode(data, type=Header)\n"
                    "    msgspec.convert(value, Header)\n"
                    "    msgspec.json.Decoder(Header)\n"
                    "    msgspec.msgpack.Decoder(list[Header])\n"
                    "    msgspec.json.decode(data, type=str)\n",
                )
            ],
            [
                f"{SHARD}:6: msgspec.json.decode(data, type=Header) is made late",
                f"{SHARD}:7: msgspec.convert(value, Header) is made late",
                f"{SHARD}:8: msgspec.json.Decoder(Header) is made late",
                f"{SHARD}:9: msgspec.msgpack.Decoder(list[Header]) is made late",
            ],
        ),
    ],
    purity.pickles: [
        (
            [Source(SHARD, "from pickle import loads"), Source(purity.PICKLING, "import pickle")],
            [f"{SHARD}:1: imports pickle.loads"],
        ),
    ],
    purity.kernels: [
        (
            [
                Source(
                    KERNEL,
                    "from stream.kernel.compiled import kernel\n"
                    "from stream.kernel import kernel, inlined, called\n"
                    "from stream.data._kernels.rows import find\n"
                    "import numpy",
                ),
                Source("consumers/codecs/_kernels/a.py", "import stream.data._kernels.rows"),
            ],
            [
                "consumers/codecs/_kernels/a.py:1: a kernel imports stream.data._kernels.rows",
                f"{KERNEL}:1: a kernel imports stream.kernel.compiled.kernel",
            ],
        ),
    ],
    purity.decorators: [
        (
            [
                Source(KERNEL, "@kernel\ndef f(): ...\n@kernel(fastmath=True)\ndef g(): ..."),
                Source(SHARD, "from numba import njit, typed\n@njit\ndef f(): ..."),
            ],
            [
                f"{SHARD}:1: imports numba.njit",
                f"{SHARD}:2: @njit is not allowed",
                f"{KERNEL}:3: @kernel(fastmath=True) is not allowed here",
            ],
        ),
    ],
    purity.powers: [
        (
            [
                Source(
                    KERNEL,
                    "TEN = 10.0**3\n"
                    "@kernel\n"
                    "def f(x, n, p):\n"
                    "    a = x**n\n"
                    "    b = 3.0**n + x**2 + x**0.5\n"
                    "    x **= p\n"
                    "    c = 2.0 ** float(p) + math.pow(x, p) + np.power(x, p) + x ** (1.0 / 3.0)\n"
                    "    d = 2.0**n + 0.5**n + 2**n + 10**15 + x ** float(p) + x ** (1.0 / p)\n"
                    "@intrinsic\n"
                    "def g(x): return x**2",
                ),
                Source("stream/bayes/b.py", "@kernel\ndef f(x): return x**2"),
            ],
            [
                f"{KERNEL}:4: x ** n may have other bits when it is compiled; call whole_power",
                f"{KERNEL}:5: 3.0 ** n may",
                f"{KERNEL}:5: x ** 0.5 may",
                f"{KERNEL}:5: x ** 2 may",
                f"{KERNEL}:6: x **= p may",
                f"{KERNEL}:7: 2.0 ** float(p) may",
                f"{KERNEL}:7: math.pow(x, p) may",
                f"{KERNEL}:7: np.power(x, p) may",
                f"{KERNEL}:7: x ** (1.0 / 3.0) may",
            ],
        ),
    ],
    purity.options: [
        (
            [Source(purity.COMPILER, "OPTIONS = {'nopython': True, 'fastmath': True}\n_Kernel(f)")],
            [
                f"{purity.COMPILER}:1: the options of kernels differ by _nrt, fast",
                f"{purity.COMPILER}:2: compiles by ['_Kernel(f)']",
            ],
        ),
        (
            [Source(purity.DECORATORS, "Kernel(function, {'fastmath': True})")],
            [
                f"{purity.DECORATORS}:1: gives",
            ],
        ),
    ],
    prose.phrases: [
        # What the pages once had.
        ([Source(PAGE, "# A\n\nA fall of an error is none.")], [f"{PAGE}:3: …# A A fall of an"]),
        (
            [Source(PAGE, "It tells when one has changed, and lets the model\nbegin anew.")],
            [f"{PAGE}:1: …It tells when", f"{PAGE}:2: …ged, and lets the model begin"],
        ),
        ([Source(PAGE, "No choice between actions hangs\non it.")], [f"{PAGE}:1: …"]),
        # What a term of the glossary replaces.
        (
            [Source(PAGE, "It writes a\nsavepoint, or two savepoints.")],
            [f"{PAGE}:2: …", f"{PAGE}:2: …"],
        ),
        (
            [Source(PAGE, "He passes over what lies in it.\n```\nanew\n```\n`said` [a](anew)")],
            [f"{PAGE}:1: …", f"{PAGE}:1: …"],
        ),
    ],
    prose.terms: [
        (
            Source(PAGE, "# A\n\n## Glossary\n\n| a | b | |\n|---|---|---|\n| fence | b | `c` |\n"),
            [],
        ),
        (
            Source(PAGE, "# A\n\n## Glossary\n\n| a | b | |\n|---|---|---|\n" + TERMS),
            [f"{PAGE}:3: 'oust' replaces 'fence'", f"{PAGE}:3: 61 terms, 1 to 60 are allowed"],
        ),
    ],
    prose.comments: [
        (
            [
                Source(
                    PURE,
                    '"""A file.\n\nIt begins anew.\n\nExamples\n--------\n>>> anew\n"""\n'
                    "x = 1  # as it\n# was said\nraise E(f'{x} lets go')",
                )
            ],
            [
                f"{PURE}:3: …A file. It begins anew. …: instead of 'anew' write: again",
                f"{PURE}:10: … as it was said…: instead of 'said' write: predicted",
                f"{PURE}:11: …… lets go…: instead of 'lets go' write: releases",
            ],
        ),
    ],
    docs.links: [
        (
            [Source(PAGE, "[a](b.md)\n[c](start.md#d) [e](https://f.example) [g](../README.md)")],
            [f"{PAGE}:1: the link to b.md leads nowhere"],
        ),
    ],
    docs.headings: [
        (
            [Source(PAGE, "# Here it is\n\n[a](#here-it-is) [b](#there)\n[c](start.md#nowhere)")],
            [f"{PAGE}:3: {PAGE} has no heading #there", f"{PAGE}:4: docs/start.md has no heading"],
        ),
    ],
    docs.cited: [
        (
            [
                Source(
                    JOIN,
                    "# docs/decisions/join.md#gone\n"
                    "# docs/decisions/join.md#ids-are-in-arrays.\n"
                    "# decision 0012\n"
                    "# docs/gone.md",
                )
            ],
            [
                f"{JOIN}:1: docs/decisions/join.md has no heading #gone",
                f"{JOIN}:3: 'decision 0012' is no page",
                f"{JOIN}:4: there is no docs/gone.md",
            ],
        ),
    ],
    docs.named: [
        (
            [Source(PAGE, "`stream/errors.py`\n`stream/gone.py` `gone.py`")],
            [f"{PAGE}:2: there is no file stream/gone.py"],
        ),
    ],
    docs.tables: [
        (
            [Source(PAGE, "| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n\n```\n| 5\n```\n")],
            [f"{PAGE}:5: a row without a table"],
        ),
    ],
    docs.commands: [
        (
            [
                Source(
                    PAGE,
                    "```sh\nheadwater run a.toml --drain\nheadwater run a.toml \\\n --fast\n```",
                ),
                Source("docs/b.md", "```python\nheadwater walk\n```\n\n    $ headwater walk"),
                Source("docker/a.service", "[Service]\nExecStart=/b/headwater run c.toml --port"),
            ],
            [
                "docker/a.service:2: headwater run c.toml --port: ",
                f"{PAGE}:3: headwater run a.toml --fast: No such option: --fast",
                "docs/b.md:5: headwater walk: there is no command 'walk'",
            ],
        ),
    ],
    docs.extras: [
        (
            [Source(PAGE, "pip install '.[arrow,mail]'\npip install 'headwater[mail]' '.[male]'")],
            [
                f"{PAGE}:2: headwater[mail] is on no index; write '.[mail]'",
                f"{PAGE}:2: there is no extra 'male'",
            ],
        ),
    ],
    docs.face: [
        (Source("README.md", "# A\n\n## Why\n\n- It weighs 530 MB ([a](docs/install.md)).\n"), []),
        (
            Source("README.md", 101 * "line\n" + "\n## Why\n\n- 1,234.5 ([a](docs/install.md))\n"),
            [
                "README.md:1: 105 lines and 106 words, 100 and 700 are allowed",
                "README.md:105: docs/install.md has no figure 1234.5",
            ],
        ),
    ],
    docs.figures: [
        (measured("0.1"), []),
        (measured("0.3"), ['README.md:4: write "in 0.3 µs, 760 × as fast as river\'s loop"']),
    ],
    docs.reasons: [
        (
            Source(
                PAGE,
                "# A\n\n| reason | |\n|---|---|\n"
                + "".join(f"| `{reason}` | a |\n" for reason in sorted(DEAD_LETTER_REASONS)[1:])
                + "| `boredom` | b |\n",
            ),
            [
                f"{PAGE}:3: the table has no row of the reason",
                f"{PAGE}:{4 + len(DEAD_LETTER_REASONS)}: 'boredom' is no reason",
            ],
        ),
    ],
    generated.current: [
        (
            {
                "docs/join.md": (ROOT / "docs/join.md")
                .read_text("utf-8")
                .replace("## Events", "##"),
                "docker/grafana/dashboards/quality.json": (
                    ROOT / "docker/grafana/dashboards/quality.json"
                ).read_text("utf-8"),
            },
            [
                "docker/grafana/dashboards/operations.json:1: is not written by docs/make_pages.py",
                "docs/join.md:",
            ],
        ),
    ],
    generated.meanings: [
        ([Section], [f"tests/lint/test_rules.py:{SIZE}: the description of size needs a sentence"]),
    ],
    faults.guards: [
        (
            [
                Mutant("each shard has one transactional id", PAGE, "x", "y", ()),
                Mutant("?", "LICENSE", "x" * 9, "y", ("tests/lint/test_rules.py::test_nothing",)),
            ],
            [
                "tests/faults/mutants.py:1: '?': there is no test tests/lint/test_rules.py::test_n",
                "tests/faults/mutants.py:1: '?': what it replaces is in LICENSE 0 times",
                "'each shard has one transactional id': what it",
            ],
        ),
    ],
    faults.points: [
        (
            [POINTS, Source(SHARD, 'reach("early")\n\nreach("early")')],
            [
                "consumers/base/failpoints.py:3: nothing reaches the failpoint 'late'",
                f"{SHARD}:3: 'early' is no failpoint, or reached elsewhere too",
            ],
        ),
    ],
    faults.suites: [
        (
            [
                Source(
                    "tests/long/a.py", 'A = ("tests/kafka", "tests/lint/test_rules.py",\n"tests/b")'
                )
            ],
            ["tests/long/a.py:2: there is no tests/b"],
        ),
    ],
    types.checked: [
        (
            '{"file": "a.py", "line": 2, "message": "No", "hint": "Yes", "code": "arg-type"}',
            ["a.py:2: No; Yes [arg-type]"],
        ),
    ],
}
# What a program looks at has to be a file.
FILES = {
    style.checked: ("import os\n", ["bad.py:1: F401 `os` imported but unused; Remove"]),
    style.formatted: ("x=1\n", ["bad.py:1: is not in ruff's format"]),
    spelling.spelled: ("\n# Recieved\n", ["bad.py:2: 'Recieved' is misspelled; write Received"]),
}


def assert_found(findings: Sequence[Finding], expected: list[str]) -> None:
    """These findings, by how they begin."""
    shown = [str(finding) for finding in sorted(findings)]

    assert len(shown) == len(expected), shown
    assert [x for x, wanted in zip(shown, expected, strict=True) if wanted not in x] == []


@pytest.mark.parametrize("rule", CASES, ids=lambda rule: f"{rule.__module__[11:]}.{rule.__name__}")
def test_rule_finds_what_it_is_about(rule: Any) -> None:
    """And nothing in what is allowed."""
    assert any(expected for _, expected in CASES[rule])
    for given, expected in CASES[rule]:
        assert_found(list(rule(given)), expected)


@pytest.mark.parametrize("rule", FILES, ids=lambda rule: rule.__name__)
def test_program_finds_what_it_is_about(rule: Any, tmp_path: Path) -> None:
    """ruff and codespell, with the settings of the project."""
    text, expected = FILES[rule]
    (tmp_path / "bad.py").write_text(text)

    assert_found(list(rule([str(tmp_path / "bad.py")])), expected)


def test_file_that_is_no_python_is_one_finding(tmp_path: Path) -> None:
    """Of the rules; it has no format."""
    (tmp_path / "bad.py").write_text("x = (\n")
    paths = [str(tmp_path / "bad.py")]

    assert_found([*style.checked(paths), *style.formatted(paths)], ["bad.py:2: invalid-syntax"])


def test_every_rule_is_one_that_was_seen_to_find_something() -> None:
    """A new rule needs a row above."""
    subjects = [import_module(f"tests.lint.{name}") for name in __main__.PROGRAMS + __main__.OURS]

    assert {rule for subject in subjects for rule in subject.RULES} == {*CASES, *FILES}


def looking(monkeypatch: pytest.MonkeyPatch, found: dict[str, list[Finding]]) -> None:
    """Have each subject find this, and one that is not named break."""
    monkeypatch.setattr(__main__, "look", lambda names: ({"a", "b"}, found["".join(names)]))


def test_step_prints_a_line_for_each_finding_in_the_order_of_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever subject has found it first; the exit code says that there is one."""
    first, second = Finding("a", 9, "no\n x"), Finding("a", 10, "no")
    looking(monkeypatch, {"types": [second], "style": [first, second], "": []})

    assert __main__.main(["style", "types"]) == 1
    assert capsys.readouterr().out == "a:9: no x\na:10: no\n2 files, 2 findings\n"


def test_step_without_findings_succeeds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And says what it looked at."""
    looking(monkeypatch, {"docs": []})

    assert __main__.main(["docs"]) == 0
    assert capsys.readouterr().out == "2 files, 0 findings\n"


def test_subject_that_cannot_run_hides_no_finding_of_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It raises after the others were printed."""
    looking(monkeypatch, {"types": [Finding("a", 9, "no")], "": []})

    with pytest.raises(KeyError, match="style"):
        __main__.main(["style", "types"])

    assert capsys.readouterr().out == "a:9: no\n2 files, 1 findings\n"


def test_unknown_subject_is_refused_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line, and the exit code of wrong use."""
    with pytest.raises(SystemExit) as ended:
        __main__.main(["stile"])

    assert ended.value.code == 2
    assert "no subject stile; write some of: types, style, spelling" in capsys.readouterr().err
