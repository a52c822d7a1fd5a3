"""Compressed files, directories, patterns and URLs."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from consumers.base.errors import ConfigError
from consumers.files.file import COMPRESSIONS, Compression
from consumers.files.format import Options
from consumers.files.places import PLACES
from consumers.files.source import FileSource, read_records

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
ROWS = b"x,y\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(5000))
RECORDS = [{"x": i, "y": i * i} for i in range(5000)]


@pytest.fixture
def memory() -> str:
    """A folder of fsspec's file system in memory."""
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    system.store.clear()
    for name, text in (("b.csv", "x\n2\n"), ("a.csv", "x\n1\n"), ("notes.txt", "no")):
        system.pipe_file(f"/visits/{name}", text.encode())
    return "memory://visits"


def test_every_compression_is_tested() -> None:
    """Whoever adds one adds how its files are made."""
    assert {each.suffix for each in COMPRESSIONS} == COMPRESS.keys()


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_file_is_read_by_its_name_or_its_first_bytes(
    tmp_path: Path, suffix: str
) -> None:
    """Also one of several parts, as `cat a.gz b.gz` makes it."""
    half = len(ROWS) // 2
    parts = COMPRESS[suffix](ROWS[:half]) + COMPRESS[suffix](ROWS[half:])
    for name in (f"a.csv{suffix}", "a.csv"):
        path = tmp_path / name
        path.write_bytes(parts)

        assert list(read_records(path)) == RECORDS


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_file_that_was_cut_or_damaged_is_never_read_as_if_it_were_whole(
    tmp_path: Path, suffix: str, name: str
) -> None:
    """A cut at any place, a flipped byte, and a damaged second part are one line."""
    lines = ROWS if name == "a.csv" else b'{"x": 1}\n' * 5000
    whole = COMPRESS[suffix](lines)
    path = tmp_path / (name + suffix)
    said = {each.suffix: each.name for each in COMPRESSIONS}[suffix]
    second = b"?" + whole[1:]
    for damaged in (
        *(whole[:-1], whole[: len(whole) // 2], whole[:-5] + b"\0\1\2\3\4", b"plain", b""),
        *(whole + second, whole + whole[:3], whole + b"x,y\n"),
    ):
        path.write_bytes(damaged)

        with pytest.raises(ConfigError, match=f"damaged {said} file") as caught:
            list(read_records(path))

        assert "\n" not in str(caught.value)


@given(
    st.sampled_from(COMPRESSIONS),
    st.lists(st.binary(max_size=20_000), min_size=1, max_size=4),
    st.integers(1, 30_000),
    st.integers(0, 2).map(lambda n: 4 * n),
)
def test_compressed_bytes_are_those_that_were_written(
    kind: Compression, parts: list[bytes], step: int, padding: int
) -> None:
    """Frames of any number and size, with zero bytes after each, read in steps of any size."""
    import io

    frames = (COMPRESS[kind.suffix](part) + bytes(padding) for part in parts)
    stream = kind.open(io.BytesIO(b"".join(frames)))
    found = b"".join(iter(lambda: stream.read(step), b""))

    assert found == b"".join(parts)


def test_every_kind_of_place_is_tested() -> None:
    """Those of the next tests."""
    assert [place.name for place in PLACES] == ["URL", "directory", "pattern", "file"]


def test_directory_is_read_in_the_order_of_names_and_says_what_is_left_out(tmp_path: Path) -> None:
    """Below it too; hidden files and marks of other programs are no data."""
    (tmp_path / "2024").mkdir()
    (tmp_path / "2024" / "b.csv").write_text("x\n2\n")
    (tmp_path / "2024" / "a.csv.gz").write_bytes(gzip.compress(b"x\n1\n"))
    (tmp_path / "z.csv").write_text("x\n3\n")
    for name in ("_SUCCESS", ".b.csv.crc", "README.md", "._c.csv"):
        (tmp_path / name).write_text("?")
    said: list[str] = []

    records = list(FileSource(tmp_path, say=said.append).records())

    assert records == [{"x": 1}, {"x": 2}, {"x": 3}]
    assert said == [f"{tmp_path}: 3 CSV files; 4 with other names left out"]


def test_pattern_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    """And a file whose name looks like a pattern is a file."""
    for name, x in (("v-2.csv", 2), ("v-1.csv", 1), ("w.csv", 3), ("v[1].csv", 4)):
        (tmp_path / name).write_text(f"x\n{x}\n")

    assert list(read_records(tmp_path / "v-?.csv")) == [{"x": 1}, {"x": 2}]
    assert list(read_records(f"{tmp_path}/**/w*.csv")) == [{"x": 3}]
    assert list(read_records(tmp_path / "v[1].csv")) == [{"x": 4}]


def test_files_of_one_place_read_a_column_alike(tmp_path: Path) -> None:
    """The first file decides, as the first rows do in one file; a column may come later."""
    (tmp_path / "a.csv").write_text("x,y\n1,\n2,\n")
    (tmp_path / "b.csv").write_text("y,z,x\n5,6,seven\n")
    (tmp_path / "c.csv").write_text("x\n007\n")

    records = list(read_records(tmp_path))

    assert records[2:] == [{"y": 5, "z": 6, "x": "seven"}, {"x": "007"}]


def test_url_is_a_file_a_folder_or_a_pattern(memory: str) -> None:
    """By any file system of fsspec."""
    said: list[str] = []

    assert list(read_records(f"{memory}/b.csv")) == [{"x": 2}]
    assert list(read_records(f"{memory}/*.csv")) == [{"x": 1}, {"x": 2}]
    assert list(FileSource(memory, say=said.append).records()) == [{"x": 1}, {"x": 2}]
    assert said == [f"{memory}: 2 CSV files; 1 with other names left out"]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("nosuch://x/a.csv", "nosuch://x/a.csv cannot be used (ValueError: Protocol not known"),
        ("memory://visits/none.csv", "none.csv: no such file"),
        ("memory://visits/*.json", "the URL has no files"),
        ("memory://user:secret@visits/x.txt", "expected a file name ending in .arrow"),
    ],
)
def test_what_is_wrong_with_a_url_is_one_line_without_its_secrets(
    memory: str, place: str, said: str
) -> None:
    """A URL may have a password."""
    with pytest.raises(ConfigError) as caught:
        list(read_records(place))

    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("names", "place", "said"),
    [
        (["a.csv", "b.jsonl"], "", "expected files of one format, got 1 csv and 1 jsonl files"),
        (["a.txt"], "", "expected files with names ending in .arrow"),
        ([], "", "the directory has no files"),
        ([], "*.csv", "the pattern has no files"),
    ],
)
def test_what_is_wrong_with_a_directory_is_one_line(
    tmp_path: Path, names: list[str], place: str, said: str
) -> None:
    """What was expected, what came, what to do."""
    for name in names:
        (tmp_path / name).write_text("x\n1\n")

    with pytest.raises(ConfigError) as caught:
        FileSource(f"{tmp_path}/{place}")

    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_format_that_is_named_needs_no_suffix(tmp_path: Path) -> None:
    """A log of an application, for example."""
    path = tmp_path / "app.log"
    path.write_text('{"x": 1}\n')

    assert list(read_records(path, options=Options("jsonl"))) == [{"x": 1}]
    with pytest.raises(ConfigError, match="expected --format as one of arrow, csv, eml, json"):
        read_records(path, options=Options("xml"))
    with pytest.raises(ConfigError, match="JSON lines has no --sep; remove it"):
        read_records(path, options=Options("jsonl", sep=";"))


@pytest.mark.parametrize(
    ("place", "said"),
    [("", "got an empty name"), ("x" * 5000 + ".csv", "cannot be read (File name too long)")],
)
def test_name_of_no_file_is_one_line(place: str, said: str) -> None:
    """An empty one is a shell variable without a value, not all files of this directory."""
    with pytest.raises(ConfigError) as caught:
        list(read_records(place))

    assert said in str(caught.value)


@pytest.mark.parametrize("place", ["pipe.csv", "*.csv"])
def test_pipe_under_a_name_is_refused(tmp_path: Path, place: str) -> None:
    """Its first reading took the records from the second one, or it waited for ever."""
    os.mkfifo(tmp_path / "pipe.csv")

    with pytest.raises(ConfigError, match=r"pipe\.csv: expected a file, got a pipe or a device"):
        FileSource(tmp_path / place)


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b"PAR1\0\0", "it is Parquet: give --format parquet"),
        (b"PK\3\4\0\0", "it is a ZIP archive or an Excel workbook: unpack it, or save the sheet"),
        (b"SQLite format 3\0", "it is an SQLite database: export the table as CSV"),
    ],
)
@pytest.mark.parametrize("name", ["export", "export.csv", "export.xlsx"])
def test_file_of_a_program_is_named(tmp_path: Path, name: str, first: bytes, said: str) -> None:
    """A Parquet file named .csv was asked for its encoding."""
    path = tmp_path / name
    path.write_bytes(first + b"\0\xff" * 20)

    with pytest.raises(ConfigError, match=said):
        list(read_records(path))


def test_file_with_other_columns_than_the_first_is_named(tmp_path: Path) -> None:
    """A column that was renamed was missing from there on; each header is said once."""
    for name, header in [("1", "id,amount"), ("2", "amount,id"), ("3", "id,Amount")]:
        (tmp_path / f"{name}.csv").write_text(f"{header}\n1,2\n")
    (tmp_path / "4.csv").write_text("id,Amount\n1,2\n")
    said = list[str]()
    list(FileSource(tmp_path, say=said.append).records())

    told = [line for line in said if "unlike" in line]
    assert told == [
        f"{tmp_path / '3.csv'}: it lacks amount and also has Amount, unlike the first file"
    ]
