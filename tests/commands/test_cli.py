"""The command line: help, version, exit codes and one line for every error."""

from __future__ import annotations

import errno
import gc
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import headwater.cli
from consumers.base.errors import ConfigError, FencedError, TransportError
from consumers.cli import COMMANDS, main
from stream.errors import SchemaError

Said = pytest.CaptureFixture[str]

HELP_MODULES = 250  # loaded by `headwater --help`
HELPS_MODULES = 1_000  # by the help of all commands, with numba and numpy


def failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `headwater run` raise `error`."""

    def run() -> None:
        raise error

    monkeypatch.setitem(sys.modules, "consumers.commands.run", SimpleNamespace(run=run))


def helped(names: list[str]) -> tuple[str, set[str]]:
    """What `headwater --help`, or that of commands, shows, and the modules that it loads."""
    program = (
        "import sys; from headwater.cli import main\n"
        f"for words in {names!r}: assert main([*words.split(), '--help']) == 0\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    shown, _, modules = done.stdout.rstrip().rpartition("\n")
    return shown, set(modules.split())


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    """All commands are listed without the libraries they use."""
    shown, modules = helped([""])

    assert all(f"  {name} " in shown for name in headwater.cli.COMMANDS)
    assert not {"numba", "numpy", "river", "pydantic", "kafka", "rich"} & modules
    assert len(modules) < HELP_MODULES


def test_help_of_commands_is_there_at_once() -> None:
    """What they import is counted: a time depends on what else the machine does."""
    _, modules = helped([*headwater.cli.COMMANDS])

    assert not {"kafka", "scipy.stats", "sklearn", "pandas", "pyarrow", "matplotlib"} & modules
    assert not {"river.metrics", "river.datasets", "sqlite3", "starlette"} & modules
    assert len(modules) < HELPS_MODULES


def test_python_m_consumers_is_the_same_command() -> None:
    """Same output, same exit codes."""
    done = subprocess.run(
        [sys.executable, "-m", "consumers", "tail", "t"], capture_output=True, text=True
    )

    assert done.returncode == 2
    assert done.stderr.startswith("headwater: expected --transport URL or --config CONFIG")
    assert done.stdout == ""


def test_process_of_the_command_collects_rarely_and_nobody_else_does(
    monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    """A program that calls a command keeps the collector it has."""
    before = gc.get_threshold()
    try:
        main(["--version"])
        called = gc.get_threshold()
        monkeypatch.setattr(sys, "argv", ["headwater", "--version"])
        main()
        own = gc.get_threshold()
    finally:
        gc.set_threshold(*before)

    assert called == before
    assert own > before
    assert capsys.readouterr().out.count("headwater 0.") == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command_has_an_example(name: str, capsys: Said) -> None:
    """The example stands on a line of its own and calls this command."""
    assert main([name, "--help"]) == 0

    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert any(line.startswith(f"headwater {name}") for line in shown)


@pytest.mark.parametrize("name", headwater.cli.COMMANDS)
def test_help_wraps_at_80_columns(name: str, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only examples are longer: one line each can be copied."""
    monkeypatch.setenv("COLUMNS", "80")
    assert headwater.cli.main([name, "--help"]) == 0

    text, example, _ = capsys.readouterr().out.partition("\n  Example")
    assert example
    assert max(map(len, text.splitlines())) <= 80


def test_version_is_that_of_the_distribution(capsys: Said) -> None:
    """`headwater --version`."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("headwater 0.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fly"], "No such command 'fly'"),
        (["tail"], "Missing argument 'TOPIC'"),
        (["tail", "t", "--nope"], "No such option"),
        (["tail", "t", "-n", "0"], "Invalid value for '--max' / '-n': "),
    ],
)
def test_wrong_arguments_exit_2(arguments: list[str], said: str, capsys: Said) -> None:
    """What is wrong and how to see the help, on stderr."""
    assert main(arguments) == 2

    out = capsys.readouterr()
    assert said in out.err
    assert "-h" in out.err
    assert out.out == ""


def test_every_fault_of_a_configuration_begins_as_the_first(tmp_path: Path, capsys: Said) -> None:
    """Or the second looks like a line of another program."""
    config = tmp_path / "c.toml"
    config.write_text("[htp]\n")

    assert main(["run", str(config)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 1
    assert all(line.startswith(f"headwater: {config}: ") for line in lines)


def test_shard_that_is_not_there_is_one_line(tmp_path: Path, capsys: Said) -> None:
    """With one shard it said "numbers from 0 to 0, such as 0,0"."""
    config = tmp_path / "n.toml"
    text = 'name = "n"\n[input]\ntransport = "memory:n"\nobservations = "o"\n[http]\nport = 0\n'
    for shards, expected in ((1, "0, the only shard"), (4, "numbers from 0 to 3, such as 0,3")):
        config.write_text(f"{text}[scale]\nshards = {shards}\n")

        assert main(["run", str(config), "--shards", "4"]) == 2
        err = capsys.readouterr().err
        assert err == f"headwater: --shards expects {expected} ([scale] shards), got '4'\n"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("expected a, got b"), 2, "headwater: expected a, got b\n"),
        (TransportError("no broker"), 1, "headwater: no broker\n"),
        (FencedError("another owner"), 3, "headwater: another owner\n"),
        (SchemaError("two fields"), 2, "headwater: two fields\n"),
        (KeyboardInterrupt(), 130, ""),
        (
            ZeroDivisionError("by\nzero"),
            1,
            "headwater: ZeroDivisionError: by zero: this is a bug; "
            "run with HEADWATER_DEBUG=1 for the traceback\n",
        ),
    ],
)
def test_error_is_one_line_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: Said, error: BaseException, code: int, line: str
) -> None:
    """Never a traceback."""
    monkeypatch.delenv("HEADWATER_DEBUG", raising=False)
    failing(error, monkeypatch)

    assert main(["run"]) == code
    assert capsys.readouterr().err == line


def test_debug_shows_the_traceback_before_the_line(
    monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    """HEADWATER_DEBUG=1 is for whoever looks for the bug."""
    monkeypatch.setenv("HEADWATER_DEBUG", "1")
    failing(ZeroDivisionError("zero"), monkeypatch)

    assert main(["run"]) == 1
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert err.splitlines()[-1].startswith("headwater: ZeroDivisionError: zero: this is a bug")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(12, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
        ImportError("libx.so: failed to map segment from shared object"),
    ],
)
def test_want_of_memory_is_not_called_a_bug(error, monkeypatch, capsys) -> None:
    """Also where it is what another error came from."""

    def failing(*_: object, **__: object) -> None:
        try:
            raise error
        except Exception:
            raise ImportError("numpy cannot be imported") from None

    monkeypatch.setattr("consumers.commands.tail.open_chosen", failing)

    assert main(["tail", "t", "--transport", "memory:x"]) == 1
    said = capsys.readouterr().err
    assert "not enough memory (ImportError): raise the limit" in said
    assert said.count("\n") == 1


def test_want_of_file_descriptors_asks_for_a_restart(monkeypatch, capsys) -> None:
    """Not for another configuration (2), also where it is the cause of such an error."""

    def failing(*_: object, **__: object) -> None:
        try:
            raise OSError(errno.EMFILE, "Too many open files")
        except OSError:
            raise ConfigError("[kafka] ssl_cafile cannot be read; correct it") from None

    monkeypatch.setattr("consumers.commands.tail.open_chosen", failing)

    assert main(["tail", "t", "--transport", "memory:x"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("headwater: too few file descriptors ([kafka] ssl_cafile cannot be read")
    assert "raise `ulimit -n`" in said


@pytest.mark.parametrize("limit", ["v 120000", "v 350000", "v 450000", "v 700000", "d 130000"])
def test_limit_below_what_the_libraries_take_is_one_line_at_once(limit: str) -> None:
    """In such a limit OpenBLAS asks for memory for ever, and no signal is heard meanwhile."""
    line = f'ulimit -{limit} && exec "$@"'
    command = ["sh", "-c", line, "sh", sys.executable, "-m", "consumers", "run", "service.toml"]
    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("headwater: not enough memory: `headwater run` needs `ulimit -")
    assert done.stderr.count("\n") == 1


def test_limit_that_suffices_lets_the_command_run() -> None:
    """A service with every kernel to compile took 1,150 MiB of addresses and 617 MiB of data."""
    line = 'ulimit -v 1572864 && ulimit -d 786432 && exec "$@"'
    command = ["sh", "-c", line, "sh", sys.executable, "-m", "consumers", "run", "missing.toml"]
    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 2
    assert "missing.toml" in done.stderr
