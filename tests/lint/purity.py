"""What makes results the same everywhere: a core without side effects, seeds, exact kernels."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from math import frexp

from tests.lint.sources import Finding, Rules, Source, called, dotted, product

__all__ = ["RULES", "files"]

# What touches the world, or depends on when or where it runs.
WORLD = """
asyncio builtins datetime fcntl glob http io logging mmap multiprocessing os pathlib platform
queue random secrets select selectors shutil signal socket sqlite3 ssl subprocess tempfile
threading time urllib uuid
""".split()  # noqa: SIM905
WORLDLY_CALLS = {"open", "print", "input", "exec", "eval", "breakpoint", "__import__"}
PICKLES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}

KERNEL = ("stream", "kernel")  # reads the kernels' source, as numba does
COMPILER = "stream/kernel/compiled.py"
MAPPINGS = "stream/data/memory.py"  # maps memory and no file
CONVERTER = "consumers/base/converter.py"  # converts by a description made at import
PICKLING = "stream/compat/classifier.py"  # which says whom it trusts
COMPILED = [
    "_Kernel(function, targetoptions={**OPTIONS, **options})",
]
COMPILES = {"kernel", "inlined", "called"}  # the decorators of what numba compiles
DECORATORS = "stream/kernel/tiers.py"
GIVEN = [
    "Kernel(function, {})",
    "Kernel(function, {'forceinline': True, '_nrt': False})",
    "Kernel(function, {'_nrt': False})",
]
OPTIONS = {"nopython", "no_cfunc_wrapper", "forceinline", "_nrt"}


def files() -> list[str]:
    """All Python of the packages."""
    return [file.path for file in product()]


def core(sources: Sequence[Source]) -> list[Source]:
    """Those of `stream`."""
    return [file for file in sources if file.parts[0] == "stream"]


def world(sources: Sequence[Source]) -> Iterator[Finding]:
    """The core has no I/O, clock, environment, threads, logging or global randomness."""
    for file in core(sources):
        for line, what in file.imports if file.parts[:-1] != KERNEL else ():
            memory = what == "io.BytesIO" or (what == "mmap" and file.path == MAPPINGS)
            if what.split(".")[0] in WORLD and not memory:
                yield file.finding(line, f"the core imports {what}; let its caller do that")
        for call in file.all(ast.Call):
            if dotted(call.func) in WORLDLY_CALLS:
                yield file.finding(
                    call.lineno, f"the core calls {dotted(call.func)}(); let its caller do that"
                )


def mappings(sources: Sequence[Source]) -> Iterator[Finding]:
    """The core maps memory and no file."""
    for file in core(sources):
        for call in called(file, "mmap.mmap"):
            if ast.unparse(call.args[0]) != "-1":
                yield file.finding(call.lineno, "the core maps a file; map memory, which is -1")


def seeds(sources: Sequence[Source]) -> Iterator[Finding]:
    """Only default_rng with a seed in the core: the same stream gives the same bits."""
    for file in core(sources):
        for call in file.all(ast.Call):
            name = dotted(call.func)
            seeded = name.endswith(".default_rng") and (call.args or call.keywords)
            random = "random." in f"{name}." and name.split(".")[0] in ("np", "numpy", "random")
            if random and not seeded:
                yield file.finding(call.lineno, f"{name} has no seed; use default_rng(seed)")


def decoders(sources: Sequence[Source]) -> Iterator[Finding]:
    """Decoders are made at import: msgspec builds a struct's description at its first decoding, and
    shows it half built to a second thread."""
    for file in sources:
        if file.path == CONVERTER or "msgspec" not in file.text:
            continue
        known = {
            name.asname or name.name
            for node in file.tree.body
            if isinstance(node, ast.ImportFrom)
            for name in node.names
        } | {node.name for node in file.tree.body if isinstance(node, ast.ClassDef)}
        functions = file.all(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        late = {call for function in functions for call in ast.walk(function) if _made(call, known)}
        for call in late:
            yield file.finding(call.lineno, f"{ast.unparse(call)} is made late; make it at import")


def _made(call: ast.AST, known: set[str]) -> bool:
    """Whether it may be where msgspec meets a struct of the module, or an imported one, first."""
    if not isinstance(call, ast.Call):
        return False
    name = ast.unparse(call.func)
    kinds = [*call.args, *(each.value for each in call.keywords)]
    names = {node.id for kind in kinds for node in ast.walk(kind) if isinstance(node, ast.Name)}
    typed = any(each.arg == "type" and ast.unparse(each.value) != "str" for each in call.keywords)
    return bool(
        (name.endswith(("Decoder", "Converter")) and names & known)
        or (name.endswith(".decode") and typed)
        or name == "msgspec.convert"
    )


def pickles(sources: Sequence[Source]) -> Iterator[Finding]:
    """Loading our own state runs no code: one room reads and writes pickles."""
    for file in sources:
        for line, what in file.imports if file.path != PICKLING else ():
            if what.split(".")[0] in PICKLES:
                yield file.finding(line, f"imports {what}, which runs code; only {PICKLING} may")


def kernels(sources: Sequence[Source]) -> Iterator[Finding]:
    """Kernels import only kernels of their room: the cache of a kernel is compared with all kernel
    files of `stream.kernel`, and no others."""
    allowed = {f"stream.kernel.{name}" for name in (*COMPILES, "intrinsic", "machine")}
    for file in sources:
        for line, what in file.imports if "_kernels" in file.parts else ():
            package = what.split(".")[0]
            own = "_kernels" in what and package == file.parts[0]
            if package in ("stream", "consumers") and not own and what not in allowed:
                text = f"a kernel imports {what}, a change of which its cache would not see"
                yield file.finding(line, f"{text}; import kernels of this package only")


def decorators(sources: Sequence[Source]) -> Iterator[Finding]:
    """Kernels are compiled by `stream.kernel`, and nothing else is: numba's own options would not
    be cached, or change bits (I1).

    An intrinsic, or an inlined function, is no kernel: it becomes part of the one that calls it.
    """
    for file in sources:
        ours = "_kernels" in file.parts
        for function in file.all(ast.FunctionDef, ast.AsyncFunctionDef):
            for decorator in function.decorator_list:
                name = ast.unparse(decorator)
                if ours and name not in COMPILES and not name.startswith("intrinsic("):
                    advice = "compile it by kernel, inlined or called"
                    yield file.finding(decorator.lineno, f"@{name} is not allowed here; {advice}")
                elif not ours and file.path != COMPILER and ("jit" in name or "vectorize" in name):
                    advice = "compile it by kernel, in a file of kernels"
                    yield file.finding(decorator.lineno, f"@{name} is not allowed; {advice}")
        for line, what in file.imports if not ours and file.path != COMPILER else ():
            if what.startswith("numba.") and ("jit" in what or "vectorize" in what):
                yield file.finding(line, f"imports {what}; compile by `stream.kernel.kernel`")


def powers(sources: Sequence[Source]) -> Iterator[Finding]:
    """Compiled powers have the bits of interpreted ones. Those of a power of two are exact, and
    those whose exponent is written as a float call the library's pow in both. numba multiplies for
    an integer, and LLVM replaces pow for many constants
    (docs/decisions/kernels.md#powers-go-through-one-function).
    """
    for file in sources:
        for function in file.all(ast.FunctionDef) if "_kernels" in file.parts else ():
            if not {*map(ast.unparse, function.decorator_list)} & COMPILES:
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
                    allowed = _same_power(node)
                elif isinstance(node, ast.AugAssign):
                    allowed = not isinstance(node.op, ast.Pow)
                else:
                    name = dotted(node.func) if isinstance(node, ast.Call) else ""
                    allowed = name.split(".")[-1] not in ("pow", "power", "float_power")
                if not allowed:
                    advice = "call whole_power, multiply, or write the exponent as float(…)"
                    text = f"{ast.unparse(node)} may have other bits when it is compiled; {advice}"
                    yield file.finding(node.lineno, text)


def _same_power(power: ast.BinOp) -> bool:
    """Whether a power is the same interpreted and compiled, as far as its text shows."""
    base, exponent = power.left, power.right
    of_float = isinstance(exponent, ast.Call) and dotted(exponent.func) == "float"
    of_float |= isinstance(exponent, ast.BinOp) and isinstance(exponent.op, ast.Div)
    if isinstance(base, ast.Constant):
        whole = isinstance(exponent, ast.Constant) and isinstance(base.value, int)
        return not of_float and (whole or frexp(base.value)[0] == 0.5)
    names = {node.id for node in ast.walk(exponent) if isinstance(node, ast.Name)} - {"float"}
    return of_float and bool(names)


def options(sources: Sequence[Source]) -> Iterator[Finding]:
    """The compiler gives all options to each kernel; fastmath and parallel change bits (I1)."""
    for file in sources:
        if file.path == DECORATORS:
            made = [ast.unparse(call) for call in called(file, "Kernel")]
            if made != GIVEN:
                text = f"gives {made}; write {GIVEN}, or change both"
                yield file.finding(file.line_of("Kernel(function"), text)
        if file.path != COMPILER:
            continue
        made = [ast.unparse(call) for call in called(file, "_Kernel")]
        if made != COMPILED:
            text = f"compiles by {made}; write {COMPILED}, or change both"
            yield file.finding(file.line_of("_Kernel("), text)
        given = [n for n in file.all(ast.Assign) if ast.unparse(n.targets[0]) == "OPTIONS"]
        names = {ast.literal_eval(key) for node in given for key in node.value.keys}
        if wrong := names ^ OPTIONS:
            text = f"the options of kernels differ by {', '.join(sorted(wrong))}; change both"
            yield file.finding(file.line_of("OPTIONS = "), text)


RULES: Rules = {
    world: product,
    mappings: product,
    seeds: product,
    decoders: product,
    pickles: product,
    kernels: product,
    decorators: product,
    powers: product,
    options: product,
}
