"""Encodings and dialects: what is guessed is right or refused, said, and can be overridden."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from consumers.base.errors import ConfigError
from consumers.files.format import Options
from consumers.files.source import FileSource, read_records
from tests.seed import share

WESTERN = "".join(bytes([n]).decode("cp1252", "ignore") for n in range(0xC0, 0x100))
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"]
CELLS = st.text(st.sampled_from("ab 1.,;|\t'é€\"\n"), max_size=6).map(str.strip)


def said_of(path: Path, options: Options | None = None) -> list[str]:
    """What is said when a file is read."""
    said: list[str] = []
    list(FileSource(path, options, said.append).records())
    return [line.partition(": ")[2] for line in said]


def test_columns_name_a_table_without_a_header(tmp_path: Path) -> None:
    """Its first line is a record too, in each file of a directory."""
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("1.5,x\n2.5,y\n")

    found = list(FileSource(tmp_path, Options(columns="size, kind")).records())

    assert found == [{"size": 1.5, "kind": "x"}, {"size": 2.5, "kind": "y"}] * 2


@pytest.mark.parametrize(
    ("first", "cell"),
    [
        ("5.1,3.5,setosa", "5.1"),
        ("A11,4,-7", "-7"),
        ("A11,4,x,4", "4"),
        ("1e3,x", "1e3"),
        ("B-7;x;7,77", "7,77"),
        ("B-7;09.10.2026 20:09", "09.10.2026 20:09"),
    ],
)
def test_first_line_that_looks_like_data_is_no_header(
    tmp_path: Path, first: str, cell: str
) -> None:
    """Instead of a wrong schema and a lost record; the user can say otherwise."""
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\n{first}\n")

    with pytest.raises(ConfigError, match="looks like data") as error:
        list(read_records(path))
    assert f"({cell})" in str(error.value)
    if len(set(first.split(","))) == len(first.split(",")):
        assert len(list(FileSource(path, Options(columns="first")).records())) == 1


@pytest.mark.parametrize("first", ["y,0,1,2", "2019,2020", "a,,1", "id,007"])
def test_whole_numbers_can_be_names(tmp_path: Path, first: str) -> None:
    """pandas writes them for arrays."""
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\n")

    assert list(read_records(path)) == []


def test_columns_of_another_number_are_refused(tmp_path: Path) -> None:
    """With both numbers."""
    path = tmp_path / "a.csv"
    path.write_text("1.5,x\n")

    with pytest.raises(ConfigError, match="line 1 has 2 cells, --columns has 3 names"):
        list(FileSource(path, Options(columns="a,b,c")).records())


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "stadt,café\nKöln,1\n"),
        ("a.jsonl", '{"stadt": "Köln", "café": 1}\n'),
        ("a.json", '[{"stadt": "Köln",\n "café": 1}]'),
    ],
)
def test_encoding_is_guessed_and_said(tmp_path: Path, encoding: str, name: str, text: str) -> None:
    """Nothing is said of UTF-8, which most files are."""
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    titles = {
        "utf-16": ["read as UTF-16; --encoding overrides it"],
        "utf-32": ["read as UTF-32; --encoding overrides it"],
        "cp1252": ["read as Windows-1252 (Latin-1); --encoding overrides it"],
    }

    assert list(read_records(path)) == [{"stadt": "Köln", "café": 1}]
    assert said_of(path) == titles.get(encoding, [])


@pytest.mark.parametrize(
    ("encoding", "word"),
    [
        ("cp1251", "Москва"),
        ("koi8-r", "Москва"),
        ("shift_jis", "東京都"),
        ("gb18030", "北京市"),
        ("euc-kr", "서울시"),
        ("cp1253", "Αθήνα"),
    ],
)
def test_other_alphabet_is_refused_unless_its_encoding_is_named(
    tmp_path: Path, encoding: str, word: str
) -> None:
    """It would be read as Western letters, and nobody would notice."""
    path = tmp_path / "a.csv"
    path.write_bytes(f"city,n\n{word},1\n".encode(encoding))

    said = r"line 2, byte 1: 0x.. is neither UTF-8 nor Windows-1252; .* --encoding cp1251, "
    with pytest.raises(ConfigError, match=said):
        list(read_records(path))
    [record] = read_records(path, options=Options(encoding=encoding))
    assert record["city"] == word


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "x,y\nä,ö\nü,".encode() + b"\xff\n", "line 3, byte 4: 0xff is not UTF-8"),
        ("a.csv", b"\xef\xbb\xbfx,y\n1,2\n3,\xff\n", "line 3, byte 3: 0xff is not UTF-8"),
        ("a.csv", b"\xef\xbb\xbf\xff", "line 1, byte 1: 0xff is not UTF-8"),
        ("a.csv", "x\n" + "y" * (2**24 + 1), "a cell has more than 16,777,216 characters"),
        ("a.json", '[{"a": "' + "y" * (2**24 + 1), "an object has more than 16,777,216 char"),
        ("a.jsonl", '{"a": ' + "9" * 5000, "it has an integer with more than 4,300 digits"),
        ("a.jsonl", '{"a": "x', "(Unterminated string starting at byte 7)"),
        ("a.jsonl", b'{"a": 1}\n{"\xc3\xa9": "\xff"}\n', "line 2, byte 9: 0xff is not UTF-8"),
        ("a.json", b'[{"\xc3\xa9": 1},\n {"b": "\xff"}]', "line 2, byte 9: 0xff is not UTF-8"),
        ("a.csv", "x,y\n1,2\n".encode("utf-16-le"), "zero bytes, so it is no text; name its enc"),
        ("a.csv", b"\xff\xfex\0\n\0\x00\xd8\n\0", "line 2, byte 1: 0x00 is not UTF-16"),
        ("a.json", '{"a": 1,\n "b": 2}\n', "line 1 is not JSON"),
        ("a.json", '[{"a": 1},\n {"b": }]', "line 2 is not JSON (Expecting value at byte 7)"),
        ("a.json", '[{"a": 1}\n {"b": 1}]', "line 2: expected a comma, got {"),
        ("a.json", '[{"a": 1},\n', "line 2: the array has no end"),
        ("a.json", '[{"a": 1}', "line 1: the array has no end"),
        ("a.json", '[{"a": 1}, 5]', "line 1: expected an object, got 5]"),
        ("a.json", '[{"a": 1}] {', "something comes after the array"),
        ("a.json", '[{"a": ' + "[" * 100_000, "line 1 is nested too deeply"),
        ("a.json", '{"a": 1}\n{"a"', "line 2 is not JSON"),
        ("a.csv", 'x,y\n1,"2\n3,4\n', "line 3 is not CSV (a quoted cell never ends)"),
        ("a.csv", 'x,y\n1,"2"3\n', "line 2 is not CSV (',' expected after '\"')"),
    ],
)
def test_what_is_wrong_with_a_text_names_line_and_byte(
    tmp_path: Path, name: str, content: str | bytes, said: str
) -> None:
    """In one line."""
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(ConfigError) as caught:
        list(read_records(path))

    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_line_of_a_bad_row_counts_line_breaks_in_cells(tmp_path: Path) -> None:
    """It is the line where an editor shows the row."""
    path = tmp_path / "a.csv"
    path.write_text('x,y\n"a\nb\nc",1\n\n2\n')

    with pytest.raises(ConfigError, match="line 6 has 1 cell, the header has 2"):
        list(read_records(path))


@pytest.mark.parametrize(
    ("text", "records", "said"),
    [
        ("x;y\n1;2\n", [{"x": 1, "y": 2}], ['read separated by ";"; --sep overrides it']),
        ("sep=;\nx,y;z\n1;2\n", [{"x,y": 1, "z": 2}], []),
        ("\ufeffsep=|\r\n\r\nx|y\r\n1|2\r\n", [{"x": 1, "y": 2}], []),
        (
            '"sep=,"\nx,y\n"1,5",2\n',
            [{"x": 1.5, "y": 2}],
            ["decimal commas in x: '1,5' is 1.5; --decimal overrides it"],
        ),
        ("sep=\t\nx\n1\n", [{"x": 1}], []),
        ("sep=,x\n1,2\n", [{"sep=": 1, "x": 2}], []),
        ("x\ty\n1\t2\n", [{"x": 1, "y": 2}], ["read separated by tabs; --sep overrides it"]),
        (
            "a,b;c\n1,5;2\n",
            [{"a,b": 1.5, "c": 2}],
            [
                'read separated by ";"; --sep overrides it',
                "decimal commas in a,b: '1,5' is 1.5; --decimal overrides it",
            ],
        ),
        (
            "a,b;c\n1,2,3;4\n",
            [{"a,b": "1,2,3", "c": 4}],
            ['read separated by ";"; --sep overrides it'],
        ),
        ("a;b,c\n1;5,2\n2,7\n", [{"a;b": "1;5", "c": 2}, {"a;b": "2", "c": 7}], []),
        (
            "'x','y'\n'a, b','it''s'\n",
            [{"x": "a, b", "y": "it's"}],
            ["read quoted by '; --quote overrides it"],
        ),
        ("x,y\n'tis,1\n'twas,2\n", [{"x": "'tis", "y": 1}, {"x": "'twas", "y": 2}], []),
        ('x,y\n5" pipe,1\n', [{"x": '5" pipe', "y": 1}], []),
        ("x\na b\n", [{"x": "a b"}], []),
    ],
)
def test_dialect_is_guessed_by_all_of_the_first_rows(
    tmp_path: Path, text: str, records: list[object], said: list[str]
) -> None:
    """A separator that gives each row as many cells as the header."""
    path = tmp_path / "a.csv"
    path.write_text(text)

    assert list(read_records(path)) == records
    assert said_of(path) == said


def test_options_override_each_guess(tmp_path: Path) -> None:
    """And then nothing is said."""
    path = tmp_path / "a.csv"
    path.write_bytes("x;'y'\n1;'1,5;é'\n".encode("cp1252"))
    options = Options(sep=",", quote="none", encoding="latin-1")
    path_of_tabs = tmp_path / "b.tsv"
    path_of_tabs.write_text("x\ty\n1\t2\n")

    [record] = read_records(path, options=Options(sep=";", quote="'"))
    assert record == {"x": 1, "y": "1,5;é"}
    with pytest.raises(ConfigError, match="line 2 has 2 cells, the header has 1"):
        list(read_records(path, options=options))
    assert said_of(path_of_tabs) == []
    assert said_of(path_of_tabs, Options(sep="tab")) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sep": ";;"}, "expected --sep as one character"),
        ({"sep": ""}, "expected --sep as one character"),
        ({"quote": "ab"}, "expected --quote as one character or none"),
        ({"quote": "|", "sep": "|"}, "are both"),
        ({"columns": "a,b,a"}, "expected --columns as different names"),
        ({"columns": "a,,b"}, "expected --columns as different names"),
        ({"encoding": "latin"}, None),
        ({"encoding": "nosuch"}, "expected --encoding as a name"),
        ({"encoding": "base64"}, "expected --encoding as a name"),
        ({"encoding": "rot13"}, "expected --encoding as a name"),
        ({"encoding": "a\0b"}, "expected --encoding as a name"),
    ],
)
def test_option_that_is_not_valid_is_one_line(wrong: dict[str, str], said: str | None) -> None:
    """Before any file is opened."""
    if said is None:
        Options(**wrong)
        return
    with pytest.raises(ConfigError, match=said):
        Options(**wrong)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each example of a property writes its files over those of the one before."""
    return tmp_path_factory.mktemp("examples")


@given(
    rows=st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=8),
    sep=st.sampled_from(",;\t|"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    end=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(ENCODINGS),
)
def test_table_is_read_as_it_was_written_in_any_dialect(
    folder: Path, rows: list[list[str]], sep: str, quoting: int, end: str, encoding: str
) -> None:
    """By Python's own writer, which is another program than the reader's guesses."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=sep, quoting=quoting, lineterminator=end)  # type: ignore[arg-type]
    header = ["n", "left", "right"]
    writer.writerow(header)
    for number, row in enumerate(rows):
        writer.writerow([f"n{number}", *row[1:]])
    assume(out.getvalue())
    # Bytes of such characters in a row are no Western text, or even UTF-8.
    assume(encoding != "cp1252" or not re.search("[é€]{2}", out.getvalue()))
    path = folder / "a.csv"
    path.write_bytes(out.getvalue().encode(encoding))
    types = dict.fromkeys(header, "text")

    found = list(read_records(path, types, missing=()))

    assert [[r.get(name, "") for name in header] for r in found] == [
        [f"n{number}", *row[1:]] for number, row in enumerate(rows)
    ]


@given(text=st.text(st.sampled_from(WESTERN + "abc, \n"), min_size=1, max_size=200))
def test_western_text_is_read_right_or_refused(folder: Path, text: str) -> None:
    """Never as something else, in UTF-8 and in Windows-1252."""
    path = folder / "a.jsonl"
    line = json.dumps({"t": text}, ensure_ascii=False)
    for encoding in ("utf-8", "cp1252"):
        path.write_bytes(line.encode(encoding))
        try:
            found = list(read_records(path))
        except ConfigError:
            assert encoding == "cp1252"
            continue
        assert found == [{"t": text}]
    [record] = read_records(path, options=Options(encoding="cp1252"))
    assert record == {"t": text}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@settings(max_examples=share(0.25))
@given(
    records=st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), max_size=6),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
    size=st.sampled_from([1, 7, 1 << 16]),
)
def test_array_is_read_as_the_lines_would_be(
    folder: Path,
    records: list[dict[str, object]],
    indent: int | None,
    ascii_only: bool,
    size: int,
) -> None:
    """With windows of any size over the text."""
    from consumers.files.formats import json as array

    path, lines = folder / "a.json", folder / "b.json"
    path.write_text(json.dumps(records, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
    lines.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    before, array.CHUNK = array.CHUNK, size
    try:
        assert list(read_records(path)) == records
        assert list(read_records(lines)) == records
    finally:
        array.CHUNK = before
