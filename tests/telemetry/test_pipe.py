"""A log that nobody reads stops nothing."""

from __future__ import annotations

import logging
import os
import re
from contextlib import closing
from io import StringIO

import pytest

from consumers.telemetry import pipe
from consumers.telemetry.pipe import LinesHandler, PatientWriter


@pytest.fixture
def ends(monkeypatch):
    """A pipe: what reads it, and a stream that writes to it."""
    monkeypatch.setattr(pipe, "PATIENCE_MS", 10)
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        yield reading, stream
    os.close(reading)


def test_lines_nobody_reads_are_lost_counted_and_reported(ends) -> None:
    """Each line that comes is whole, but for the one that was cut; then it says how many went."""
    reading, stream = ends
    handler = LinesHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    for i in range(3_000):
        handler.handle(logging.makeLogRecord({"msg": f"{i:05d} {'x' * 94}"}))
    read = os.read(reading, 1 << 20).decode()
    handler.handle(logging.makeLogRecord({"msg": "and then"}))
    after = os.read(reading, 1 << 20).decode().splitlines()

    whole = [line for line in read.splitlines() if re.fullmatch(r"\d{5} x{94}", line)]
    assert [int(line[:5]) for line in whole] == list(range(len(whole)))
    assert len(read.splitlines()) - len(whole) <= 1
    assert after[-2:] == [
        "and then",
        f"{3_000 - len(whole)} lines of the log before this were lost: nobody read them",
    ]


def test_long_line_is_written_in_pieces(ends) -> None:
    """A traceback is longer than a pipe takes at once."""
    reading, stream = ends

    assert PatientWriter(stream).write("y" * 20_000)
    assert os.read(reading, 1 << 20) == b"y" * 20_000 + b"\n"


def test_pipe_without_a_reader_is_no_error() -> None:
    """Its lines are lost like others."""
    reading, writing = os.pipe()
    os.close(reading)
    with closing(os.fdopen(writing, "w")) as stream:
        assert not PatientWriter(stream).write("x")


def test_stream_without_a_file_is_written_to() -> None:
    """As tests and notebooks have it."""
    stream = StringIO()

    assert PatientWriter(stream).write("x")
    assert stream.getvalue() == "x\n"
