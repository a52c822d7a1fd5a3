"""The shape of the code, held by tests: rooms, sizes, names, purity, documentation.

The rooms stand in the order of docs/ARCHITECTURE.md; a room imports only rooms above it.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from consumers.transports.registry import transports
from stream.kernel.compiled import OPTIONS
from stream.learner.registry import learners

ROOT = Path(__file__).parents[1]
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}
# What touches the world, or depends on when or where it runs.
WORLD = """
asyncio builtins datetime fcntl glob http io logging mmap multiprocessing os pathlib platform
queue random secrets select selectors shutil signal socket sqlite3 ssl subprocess tempfile
threading time urllib uuid
""".split()  # noqa: SIM905
WORLDLY_CALLS = {"open", "print", "input", "exec", "eval", "breakpoint", "__import__"}
PICKLES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
IMPORT_SECONDS = 1.5

PACKAGES = ("stream", "consumers", "headwater")  # each may import those before it
FILES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
PURE = [p for p in FILES if p.relative_to(ROOT).parts[0] == "stream"]
COMPILER = ROOT / "stream" / "kernel" / "compiled.py"  # reads the kernels' source, as numba does
MAPPINGS = ROOT / "stream" / "data" / "memory.py"  # maps memory and no file
KERNELS = [p for p in FILES if "_kernels" in p.with_suffix("").parts]


def drawn() -> dict[str, set[str]]:
    """The tree in docs/ARCHITECTURE.md: each folder, in its order, to the files it names there."""
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    found: dict[str, set[str]] = {}
    above: list[str] = []
    for line in re.search(r"```\n(stream/.*?)```", text, re.DOTALL)[1].splitlines():
        indent, opens = re.match(r"( *)(\w+/|\w+\.py)?", line).groups()
        depth = len(indent) // 2
        if opens and depth < 3:
            above[depth:] = [opens.removesuffix("/")] if opens.endswith("/") else []
            found.setdefault("/".join(above), set())
        found["/".join(above)] |= set(re.findall(r"\b(\w+\.py)\b", line))
    return found


def rooms_of(package: str) -> list[str]:
    """Its rooms in dependency order: the folders and files at the top of the tree."""
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    block = re.search(rf"^{package}/.*?(?=^\w|^```)", text, re.DOTALL | re.MULTILINE)[0]
    return [*re.findall(r"^  (\w+)(?:/|\.py) ", block, re.MULTILINE), "__main__"]


ROOMS = {package: rooms_of(package) for package in PACKAGES}


def name(path: Path) -> str:
    """A file as it is called in messages and test ids."""
    return str(path.relative_to(ROOT))


def each(files: list[Path]) -> Callable[[Callable[[Path], None]], pytest.MarkDecorator]:
    """One test a folder, which looks at each of its files; thousands of tests would take longer to
    collect and to report than to run."""
    folders: dict[Path, list[Path]] = {}
    for path in files:
        folders.setdefault(path.parent, []).append(path)

    def looking(look: Callable[[Path], None]) -> pytest.MarkDecorator:
        def test(folder: Path) -> None:
            for path in folders[folder]:
                try:
                    look(path)
                except AssertionError as error:
                    error.add_note(name(path))
                    raise

        test.__name__, test.__doc__ = look.__name__, look.__doc__
        return pytest.mark.parametrize("folder", list(folders), ids=name)(test)

    return looking


@cache
def tree(path: Path) -> ast.Module:
    """The parsed file."""
    return ast.parse(path.read_text())


def imports(module: ast.Module) -> list[tuple[int, str]]:
    """Line and dotted name of everything imported, wherever in the file it stands."""
    out = []
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            out += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            out += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    return out


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a name or attribute, "" of anything else."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def calls(module: ast.Module) -> list[ast.Call]:
    """Every call in the file."""
    return [node for node in ast.walk(module) if isinstance(node, ast.Call)]


def misplaced(package: str, room: str, imported: str) -> str | None:
    """Why a file in this room may not import this; None where it may."""
    parts = imported.split(".")
    if imported.startswith("."):
        return "a relative import hides which room it is from"
    if parts[0] in PACKAGES and PACKAGES.index(parts[0]) > PACKAGES.index(package):
        return f"{package} never imports {parts[0]}"
    if parts[0] != package:
        return None
    rooms = ROOMS[package]
    if room == "__init__":
        return None
    other = parts[1] if len(parts) > 1 else ""
    if other not in rooms:
        return f"{other!r} is no room of {package}: import from the room that defines it"
    if rooms.index(other) > rooms.index(room):
        return f"{other} comes below {room}"
    return None


def functions(module: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of the file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(module) if isinstance(node, kinds)]


def undocumented(module: ast.Module) -> list[str]:
    """Public classes and functions of the file without a docstring."""
    kinds = (ast.ClassDef, ast.FunctionDef)
    public = [n for n in module.body if isinstance(n, kinds) and not n.name.startswith("_")]
    return [node.name for node in public if ast.get_docstring(node) is None]


def test_tree_of_the_architecture_names_every_file_in_its_room() -> None:
    """And no other: whoever looks for a file by the tree finds it. Learners and
    transports of one file have a table."""
    real: dict[str, set[str]] = {}
    for path in FILES:
        room = real.setdefault(str(path.parent.relative_to(ROOT)), set())
        room |= {path.name} - {"__init__.py", "__main__.py"}
    real = {room: names for room, names in real.items() if "_kernels" not in room}
    real = {room: names - {"_kernels.py"} for room, names in real.items()}

    for kind in learners().values():  # the table in docs/learners.md links to their files
        *room, file = kind.__module__.split(".")
        real["/".join(room)].discard(f"{file}.py")
    for scheme in transports():  # the table in docs/config.md links to the folders of one file
        folder = f"consumers/transports/{scheme}"
        if real[folder] == {"log.py"}:
            del real[folder]

    assert drawn() == real


@each(FILES)
def test_a_room_imports_only_rooms_above_it(path) -> None:
    """One direction of imports, so that every room can be read without those below it."""
    package, *inside = path.relative_to(ROOT).with_suffix("").parts
    room = inside[0]
    rooms = ROOMS[package]

    assert room in [*rooms, "__init__"], f"{name(path)}: {room!r} is no room of {package}"
    wrong = [
        f"{name(path)}:{line} imports {imported}: {why}"
        for line, imported in imports(tree(path))
        if (why := misplaced(package, room, imported))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_order_of_rooms_would_be_noticed() -> None:
    """The rule itself: what is allowed and what is not."""
    assert misplaced("stream", "learner", "stream.data.block.Block") is None
    assert misplaced("stream", "learner", "stream.bayes.GaussianNB") == "bayes comes below learner"
    assert misplaced("stream", "join", "consumers.base.errors") == "stream never imports consumers"
    assert misplaced("consumers", "shard", "headwater.load") == "consumers never imports headwater"
    assert misplaced("consumers", "shard", "stream.join.join.LabelJoin") is None
    assert (
        misplaced("consumers", "shard", "consumers.service.runner.run")
        == "service comes below shard"
    )
    assert "relative" in str(misplaced("stream", "learner", "..block.Block"))
    assert "no room" in str(misplaced("stream", "learner", "stream.GaussianNB"))


def graph(files: list[Path]) -> dict[str, set[str]]:
    """Each file to the files it imports, wherever in it the import stands."""
    modules = {dotted_name(path): path for path in files}
    found: dict[str, set[str]] = {}
    for module, path in modules.items():
        asked = (what for _, what in imports(tree(path)))
        # `from a.b import c` means the file a/b/c.py, or else a name in a/b.py.
        meant = (what if what in modules else what.rpartition(".")[0] for what in asked)
        found[module] = {what for what in meant if what in modules} - {module}
    return found


def dotted_name(path: Path) -> str:
    """The module a file is; a package is its `__init__.py`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def circle(found: dict[str, set[str]]) -> list[str]:
    """Files that import each other in a circle; empty where none do."""
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_files_import_each_other_in_a_circle() -> None:
    """Inside a room too, and for the type checker's imports: every file can be read bottom up."""
    found = graph(FILES)

    assert sum(map(len, found.values())) > 1000
    assert circle(found) == []


def test_a_circle_of_files_would_be_noticed() -> None:
    """The rule itself, over any number of files."""
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})


@each(FILES)
def test_files_and_functions_are_short(path) -> None:
    """A file fits in the head, a function on a screen."""
    lines = len(path.read_text().splitlines())
    long = {
        f.name: (f.end_lineno or f.lineno) - f.lineno + 1
        for f in functions(tree(path))
        if (f.end_lineno or f.lineno) - f.lineno + 1 > MAX_FUNCTION_LINES
    }

    assert lines <= MAX_FILE_LINES, f"{name(path)} has {lines} lines; split it by what changes"
    assert not long, f"{name(path)}: functions longer than {MAX_FUNCTION_LINES} lines: {long}"


@each(FILES)
def test_no_room_is_called_by_what_it_is_not(path) -> None:
    """utils, helpers, common and misc say nothing about what is inside."""
    parts = {part.strip("_") for part in path.relative_to(ROOT).with_suffix("").parts}

    assert not parts & VAGUE


def named_twice(files: list[Path]) -> dict[str, list[str]]:
    """Names of public classes that several files define, with these files."""
    where: dict[str, list[str]] = {}
    for path in files:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(path.as_posix())
    return {name: paths for name, paths in where.items() if len(paths) > 1}


def test_no_two_public_classes_have_one_name() -> None:
    """So that a name in a message, a page or a review means one thing."""
    assert named_twice(FILES) == {}


def test_a_second_class_of_a_name_would_be_noticed(tmp_path) -> None:
    """Public classes only: a private one is seen in its own file."""
    for file in "ab":
        (tmp_path / f"{file}.py").write_text("class Window: ...\nclass _Row: ...\n")

    assert list(named_twice(sorted(tmp_path.iterdir()))) == ["Window"]


@each(FILES)
def test_every_file_says_its_rule(path) -> None:
    """A module docstring of one line at least."""
    assert ast.get_docstring(tree(path)), f"{name(path)} has no docstring"


@each(PURE)
def test_public_names_of_the_core_are_documented(path) -> None:
    """Classes and functions a user may call say what they do."""
    assert undocumented(tree(path)) == []


@each(PURE)
def test_the_core_touches_no_world(path) -> None:
    """No I/O, clock, environment, threads, logging or global randomness."""
    worldly = [
        f"{name(path)}:{line} {what}"
        for line, what in imports(tree(path))
        if what.split(".")[0] in WORLD
        and what != "io.BytesIO"  # which is memory
        and not (what == "mmap" and path == MAPPINGS)
        and path.parent != COMPILER.parent
    ]
    worldly += [
        f"{name(path)}:{call.lineno} {dotted(call.func)}()"
        for call in calls(tree(path))
        if dotted(call.func) in WORLDLY_CALLS
    ]

    assert not worldly, "\n".join(worldly)


def test_the_core_maps_no_file() -> None:
    """Its mappings are memory."""
    made = [call for call in calls(tree(MAPPINGS)) if dotted(call.func) == "mmap.mmap"]

    assert {ast.unparse(call.args[0]) for call in made} == {"-1"}


@each(PURE)
def test_randomness_in_the_core_is_seeded(path) -> None:
    """Only default_rng with a seed: the same stream gives the same bits."""
    unseeded = [
        f"{name(path)}:{call.lineno} {dotted(call.func)}"
        for call in calls(tree(path))
        if "random." in f"{dotted(call.func)}."
        and not (dotted(call.func).endswith(".default_rng") and (call.args or call.keywords))
        and dotted(call.func).split(".")[0] in ("np", "numpy", "random")
    ]

    assert not unseeded, "\n".join(unseeded)


@each(FILES)
def test_pickle_is_read_and_written_in_one_room_only(path) -> None:
    """Loading our own state runs no code; stream/compat says whom it trusts."""
    if path == ROOT / "stream" / "compat" / "classifier.py":
        return
    found = [what for _, what in imports(tree(path)) if what.split(".")[0] in PICKLES]

    assert not found, f"{name(path)} imports {found}"


def reaches(module: ast.Module) -> list[str]:
    """Private names that the file uses but does not define."""
    defined = {
        node.attr
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and dotted(node.value) in ("self", "cls")
    }
    kinds = (ast.FunctionDef, ast.ClassDef)
    defined |= {node.name for node in ast.walk(module) if isinstance(node, kinds)}
    used = [node for node in ast.walk(module) if isinstance(node, ast.Attribute)]
    names = [(node.lineno, node.attr) for node in used]
    names += [(line, what.rsplit(".", 1)[-1]) for line, what in imports(module)]
    private = [(line, x) for line, x in names if x.startswith("_") and not x.startswith("__")]
    defined |= {"_asdict", "_fields", "_make", "_replace"}  # public names of every NamedTuple
    return [f"{line}: {x}" for line, x in private if x not in defined]


@each([p for p in PURE if p.parent.name == "join"])
def test_no_file_of_the_join_reads_the_privates_of_another(path) -> None:
    """So that what a file holds can change without the others."""
    assert reaches(tree(path)) == []


def test_a_private_name_of_another_file_would_be_noticed() -> None:
    """The rule itself; the file's own names are allowed."""
    assert reaches(ast.parse("join._waiting.pop(id_)")) == ["1: _waiting"]
    assert reaches(ast.parse("from stream.join.join import _same")) == ["1: _same"]
    assert reaches(ast.parse("class A:\n def __init__(self): self._x = 1\ny._x")) == []


def schemes_asked(module: ast.Module) -> list[str]:
    """Where the file compares a text with the scheme of a transport."""
    wanted = {*transports(), *(f"{scheme}:" for scheme in transports())}
    methods = ("startswith", "removeprefix")
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in methods:
            compared: list[ast.expr] = node.args
        elif isinstance(node, ast.Compare) and "scheme" in ast.unparse(node):
            compared = [node.left, *node.comparators]
        else:
            continue
        texts = [part.value for part in compared if isinstance(part, ast.Constant)]
        found += [f"{node.lineno}: {text}" for text in texts if text in wanted]
    return found


@each([p for p in FILES if "transports" not in p.parts])
def test_only_a_transport_knows_its_scheme(path) -> None:
    """Everybody else asks the registry what the transport can do."""
    assert schemes_asked(tree(path)) == []


def test_a_scheme_that_is_asked_for_would_be_noticed() -> None:
    """The rule itself, in both ways in which it was broken; a URL in a text is allowed."""
    assert schemes_asked(ast.parse('url.startswith("kafka:")')) == ["1: kafka:"]
    assert schemes_asked(ast.parse('if scheme == "sqlite": pass')) == ["1: sqlite"]
    assert schemes_asked(ast.parse('url = f"sqlite:{name}.db"')) == []


def half_made(text: str) -> list[str]:
    """Where msgspec may meet a struct first in a function, which two threads can call at once."""
    tree = ast.parse(text)
    at_import = {
        name.asname or name.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    } | {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    found = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        for call in ast.walk(function):
            if not isinstance(call, ast.Call):
                continue
            made = ast.unparse(call.func)
            kinds = [*call.args, *(each.value for each in call.keywords)]
            names = {node.id for kind in kinds for node in ast.walk(kind) if hasattr(node, "id")}
            late = made.endswith(("Decoder", "Converter")) and names & at_import
            typed = made.endswith(".decode") and any(
                each.arg == "type" and ast.unparse(each.value) != "str" for each in call.keywords
            )
            if late or typed or made == "msgspec.convert":
                found.append(f"{call.lineno}: {ast.unparse(call)}")
    return found


@each([p for p in FILES if p.parts[-2:] != ("base", "converter.py")])
def test_decoders_are_made_at_import(path) -> None:
    """msgspec builds a struct's description at its first decoding, and shows it half built."""
    text = path.read_text()

    assert "msgspec" not in text or half_made(text) == []


@pytest.mark.parametrize(
    "line",
    [
        "msgspec.json.decode(data, type=Header)",
        "msgspec.convert(value, Header)",
        "msgspec.json.Decoder(Header)",
        "msgspec.msgpack.Decoder(list[Header])",
    ],
)
def test_a_decoder_that_is_made_late_would_be_noticed(line: str) -> None:
    """The check, checked."""
    assert half_made(f"class Header(msgspec.Struct):\n    n: int\ndef read():\n    {line}") != []


@each(KERNELS)
def test_kernels_import_only_kernels(path) -> None:
    """The cache of a kernel is compared with all kernel files of `stream.kernel`, and no others."""
    ours = [
        what for _, what in imports(tree(path)) if what.split(".")[0] in ("stream", "consumers")
    ]
    room = path.relative_to(ROOT).parts[0]
    own = [what for what in ours if "_kernels" in what and what.split(".")[0] == room]
    other = {*ours} - {*own, *(f"stream.kernel.{each}" for each in ("kernel", "inlined", "called"))}

    assert not other, f"{name(path)} imports {sorted(other)}"


def calls_of(function: str, path: Path) -> list[str]:
    """The calls of a function in a file."""
    return [ast.unparse(call) for call in calls(tree(path)) if dotted(call.func) == function]


@each(FILES)
def test_compiled_code_is_exact_and_lives_in_kernels(path) -> None:
    """numba only in kernels; every kernel cached; fastmath and parallel change bits (I1).

    An intrinsic, or an inlined function, is no kernel: it becomes part of the one that calls it.
    """
    compilers = [what for _, what in imports(tree(path)) if what.startswith("numba.")]
    decorators = [
        ast.unparse(decorator)
        for function in functions(tree(path))
        for decorator in function.decorator_list
    ]
    if path in KERNELS:
        assert set(decorators) <= {"kernel", "inlined", "called", "intrinsic"}
        return
    if path == COMPILER:
        assert calls_of("_Kernel", path) == [
            "_Kernel(function, targetoptions=OPTIONS)",
            "_Kernel(function, targetoptions={**OPTIONS, 'forceinline': True, '_nrt': False})",
            "_Kernel(function, targetoptions={**OPTIONS, '_nrt': False})",
        ]
        assert set(OPTIONS) == {"nopython", "no_cfunc_wrapper", "forceinline", "_nrt"}
        return
    assert not [what for what in compilers if "jit" in what or "vectorize" in what]
    assert not [what for what in decorators if "jit" in what or "vectorize" in what]


PROBE = """
import sys, time, json
from numba.core import event
start = time.perf_counter()
with event.install_recorder("numba:compile") as compiled:
    import stream
print(json.dumps({"compiled": len(compiled.buffer), "modules": sorted(sys.modules)}))
"""
CLOCK = "import time; t = time.process_time(); import stream; print(time.process_time() - t)"


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-W", "error::UserWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def test_importing_the_core_compiles_nothing_and_loads_little() -> None:
    """river's metrics and drift, and libraries of frames, are loaded by those who use them."""
    found = json.loads(python(PROBE))
    heavy = {"river.metrics", "river.drift", "river.datasets", "sklearn", "matplotlib"}
    heavy |= {"narwhals", "pandas", "polars", "pyarrow"}

    assert found["compiled"] == 0
    assert not heavy & set(found["modules"])
    assert not [m for m in found["modules"] if m.split(".")[0] == "consumers"]


def test_importing_the_service_loads_no_statistics() -> None:
    """scipy.stats takes longer than the rest of a start; only some of river's modules need it."""
    found = json.loads(python(PROBE.replace("import stream", "import consumers.service.runner")))

    assert not {"scipy.stats", "river.metrics", "river.multiclass"} & set(found["modules"])


def test_feeds_of_the_demo_load_no_statistics() -> None:
    """`river.datasets` takes longer to import than the rest of a start."""
    feed = "from consumers.demo.data import bundled; next(bundled('phishing').records())"
    found = json.loads(python(PROBE.replace("import stream", feed)))

    assert not {"river.datasets", "scipy.stats", "sklearn", "pandas"} & set(found["modules"])


def test_importing_the_core_is_quick(record_property) -> None:
    """The best of three is far below what a user would notice."""
    seconds = min(float(python(CLOCK)) for _ in range(3))
    record_property("import_stream_seconds", seconds)

    assert seconds < IMPORT_SECONDS, f"import stream takes {seconds:.2f} s"
