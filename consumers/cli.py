"""The command `headwater`: wires the commands and turns every error into one line.

Rule: only the requested command is imported, so that `--help` is fast. Exit codes: 0 ok, 1 failed,
2 wrong use or configuration, 3 fenced, 130 interrupted.
"""

from __future__ import annotations

import errno
import functools
import gc
import importlib
import keyword
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from typing import Annotated, Any, Final, NoReturn

import typer

from consumers.base.address_space import MemoryLimitError, check_limits, one_blas_thread

__all__ = [
    "COMMANDS",
    "Commands",
    "application",
    "collect_rarely",
    "main",
    "prepare_process",
    "silence_compilation_warnings",
]

INTERRUPTED = 130
# Messages of the library loader and of the thread start.
NO_MEMORY = (
    "failed to map segment",
    "annot allocate memory",
    "can't start new thread",
    "Could not find/load shared object file 'libllvmlite.so'",
)

# Module and function in consumers.commands have the command's name; `import_` for a keyword.
COMMANDS: Final = {
    "demo": "Watch a model learn from real records; no broker needed.",
    "sample": "Write a sample file of records with labels.",
    "init": "Look at a file or topic and write a configuration that runs.",
    "check": "Report all errors of a configuration.",
    "doctor": "Check a configuration, and probe its log, disk and service.",
    "run": "Run the service: predict, learn when labels arrive, publish.",
    "replay": "Score a configuration on a file, without a broker.",
    "rebuild": "Rebuild the model as it was at an earlier moment.",
    "export": "Write the model to a file, for Python or a new service.",
    "import": "Start a new service from a model file.",
    "backfill": "Learn a history, then start a new service with the model.",
    "audit": "Make one prediction again, bit for bit, and explain it.",
    "tokens": "Show the spammiest and hammiest features of a spam filter.",
    "promote": "Make a challenger the champion whose predictions are written.",
    "relearn": "Learn all records again with new settings of the model.",
    "reshard": "Give a service another number of shards, under the same name.",
    "rollback": "Remove what the model has learned since a moment.",
    "snapshots": "List, show, verify or export a service's snapshots.",
    "compact": "Make the file of an embedded log smaller.",
    "produce": "Write the records of a file to a topic, labels later.",
    "tail": "Print the records of a topic.",
}


# A summary and the module with the function of the command, by name.
Commands = Mapping[str, tuple[str, str]]


def main(arguments: Sequence[str] | None = None, more: Commands | None = None) -> int:
    """Run the command line; the exit code.

    Parameters
    ----------
    arguments
        The words after the program's name; by default those of the process.
    more
        Commands of another package.
    """
    if arguments is None:  # the program's own process
        prepare_process()
    _open_closed_streams()
    given = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a narrow encoding must not stop a record
            stream.reconfigure(errors="backslashreplace")
    asked = next((argument for argument in given if not argument.startswith("-")), None)
    try:
        application(asked, more)(args=given, prog_name="headwater")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:  # while the command is loaded
        return INTERRUPTED
    return 0


def _open_closed_streams() -> None:
    """Give output whose stream was closed before the start (`>&-`) somewhere to go.

    Python has None for such a stream. An open file also keeps its number from other files.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  to the end


def prepare_process() -> None:
    """Set what a process of the program has for itself, before a command is imported."""
    collect_rarely()
    one_blas_thread()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it reads all packages for them
    silence_compilation_warnings()


def collect_rarely() -> None:
    """Look for cycles of objects less often than Python's default.

    Reference counts free unused objects at once. The collector only finds cycles, which are rare
    here. By default it runs after every 700 new objects and visits the 100,000 ids of the join
    each time, which took 20 % of the service's time. A batch has several 10,000 objects, which
    are freed with it; a run after every 10,000 new objects took 5 % of a replay's time.

    What is loaded before the command begins stays, so it is never visited.
    """
    gc.set_threshold(100_000, 50, 100)
    gc.disable()


def _begin_to_collect() -> None:
    if not gc.isenabled():  # by `collect_rarely`
        gc.freeze()
        gc.enable()


def silence_compilation_warnings() -> None:
    """Commands report that they compile kernels in a line of their own, not as a warning."""
    warnings.filterwarnings("ignore", message="compiling kernels")


def application(asked: str | None, more: Commands | None = None) -> typer.Typer:
    """The commands, with those of another package; only name and summary for those that were not
    requested."""
    app = typer.Typer(
        name="headwater",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain text: one line per error, and no import of rich
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    own = {name: (summary, _module(name)) for name, summary in COMMANDS.items()}
    every = {**own, **(more or {})}
    for name, (summary, module) in every.items():
        if name == asked:
            app.command(name)(_reporting(_imported(name, module)))
        else:
            app.command(name, help=summary)(_not_asked)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"headwater {version('headwater')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """A service that learns while it serves.

    \b
    Example:
      headwater demo
      headwater COMMAND --help
    """


def _module(name: str) -> str:
    """Of a command of this package: its name; `import_` for a keyword."""
    return f"consumers.commands.{name}{'_' if keyword.iskeyword(name) else ''}"


def _imported(name: str, module: str) -> Callable[..., None]:
    command: Callable[..., None]
    try:
        check_limits(name)
        function = module.rpartition(".")[2]
        command = getattr(importlib.import_module(module), function)
    except MemoryLimitError as error:  # written directly, because `_end` would load those libraries
        sys.stderr.write(f"headwater: {error}\n")
        raise SystemExit(1) from None
    except Exception as error:
        _end(error)
    return command


def _not_asked() -> NoReturn:
    raise AssertionError("only the requested command is loaded")


def _reporting(command: Callable[..., None]) -> Callable[..., None]:
    """The command; if it fails, it ends with one line and an exit code."""

    @functools.wraps(command)
    def reported(*args: Any, **kwargs: Any) -> None:
        _begin_to_collect()
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader, such as `head`, has closed the pipe. Send the buffered output elsewhere.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for stream in (sys.stdout, sys.stderr):  # both after `2>&1 |`
                try:
                    stream.flush()
                except OSError:
                    os.dup2(nowhere, stream.fileno())
            raise SystemExit(0) from None
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:
            _end(error)

    return reported


def _end(error: Exception) -> NoReturn:
    """Print the error in one line and end the process."""
    from consumers.base.errors import HeadwaterError
    from consumers.base.secrets import masked
    from consumers.telemetry.pipe import PatientWriter
    from stream.errors import StreamError

    if os.environ.get("HEADWATER_DEBUG"):
        typer.echo(masked("".join(traceback.format_exception(error))), err=True, nl=False)
    if isinstance(error, HeadwaterError) and not (error.exit_code == 2 and short_of_files(error)):
        code, line = error.exit_code, str(error)
    elif short_of_files(error):  # no error of the configuration, also where it looks like one
        line = " ".join(str(error).split())
        code, line = 1, f"too few file descriptors ({line}): raise `ulimit -n`, then start again"
    elif isinstance(error, StreamError):
        code, line = 2, str(error)
    elif short_of_memory(error):
        code = 1
        line = (
            f"not enough memory ({type(error).__name__}): raise the limit of the container or "
            "of `ulimit -v`, or remove it; an idle service takes about 300 MiB"
        )
    else:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        code, line = 1, f"{what}: this is a bug; run with HEADWATER_DEBUG=1 for the traceback"
    log = sys.modules.get("consumers.telemetry.log")  # only a service has a log
    if log is None or not log.ended(masked(line), code):
        faults = masked(line).replace("\n", "\nheadwater: ")  # a configuration can have several
        PatientWriter(sys.stderr).write(f"headwater: {faults}")
    raise SystemExit(code)


def short_of_files(error: BaseException) -> bool:
    """Whether the error, or one of its causes, is a lack of file descriptors.

    Examples
    --------
    >>> short_of_files(OSError(24, "Too many open files")), short_of_files(OSError(2, "No file"))
    (True, False)
    """
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    return any(isinstance(e, OSError) and e.errno in (errno.EMFILE, errno.ENFILE) for e in causes)


def short_of_memory(error: BaseException) -> bool:
    """Whether the error, or one of its causes, is a lack of memory or of address space.

    Examples
    --------
    >>> short_of_memory(MemoryError()), short_of_memory(ValueError("x"))
    (True, False)
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError) or getattr(seen, "errno", None) == errno.ENOMEM:
            return True
        if any(sign in str(seen) for sign in NO_MEMORY):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
