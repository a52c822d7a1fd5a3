"""Mail and texts as records: bytes to columns, ids, and the JSON of requests."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence

import pytest

from consumers.base.errors import ConfigError, RecordError
from consumers.codecs.json import DecodedObservations
from consumers.codecs.json_document import parse as parse_document
from consumers.codecs.json_document import parse_quickly
from consumers.codecs.mail_field import MailField
from consumers.codecs.raw import JsonDocuments
from consumers.codecs.registry import wire_format
from consumers.codecs.schemas import SchemaBook
from consumers.config import Config, parse
from consumers.config.model import identity_difference, relearnable
from consumers.mail.document import mail_document
from consumers.mail.envelope import mail_key
from consumers.schemas.translate import Translator
from consumers.shard.assembly import shard_of
from tests.consumers.mail.made import mails

MAIL = b"Message-ID: <7@x.org>\nSubject: hi\n\nwww.b.com"
ENCODED = base64.b64encode(MAIL).decode()
MAIL_KEY = mail_key(MAIL)


def configured(lines: str) -> Config:
    """A configuration with these lines in [input]."""
    return parse(
        f"name = 's'\n[model]\ntype = 'MultinomialNB'\n[input]\ntransport = 'memory:m'\n"
        f"observations = 'mails'\nlabels = 'verdicts'\n{lines}"
    )


def decoded(
    lines: str, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
) -> DecodedObservations:
    """The columns of these records, as a shard decodes them."""
    config = configured(lines)
    schema = config.declared_schema
    assert schema is not None
    spec = shard_of(config, schema).spec
    return spec.decoder(SchemaBook()).decode(keys or [b"k"] * len(values), values)


def test_fields_of_a_mail_need_no_section() -> None:
    """Texts are columns under their names."""
    config = configured("format = 'mail'")
    schema = config.declared_schema
    made = decoded("format = 'mail'", [MAIL])

    assert schema is not None
    assert schema.numeric == ()
    assert dict(zip(schema.text, made.rows.text[0], strict=True))["subject"] == "hi"
    assert not made.rejected


def test_columns_are_those_of_the_document() -> None:
    """For many mails; the typed decoder and the slow path agree."""
    config = configured("format = 'mail'")
    schema = config.declared_schema
    assert schema is not None
    values = list(mails(30, seed=5))
    spec = shard_of(config, schema).spec
    decoder = spec.decoder(SchemaBook())

    rows = decoder.decode([b"k"] * 30, values).rows

    for i, value in enumerate(values):
        document = mail_document(value)
        assert rows.text[i].tolist() == [document[name] for name in schema.text]
        assert rows.numeric[i].tolist() == [document[name] for name in schema.numeric]
        assert decoder.slow(b"k", value)[0] == tuple(document[f.name] for f in schema.fields)


@pytest.mark.parametrize(("key", "expected"), [(b"3", "3"), (None, MAIL_KEY), (b"", MAIL_KEY)])
def test_id_of_a_mail_is_its_key_or_made_of_it(key: bytes | None, expected: str) -> None:
    """The key first: the sender of a mail chooses its Message-ID."""
    assert decoded("format = 'mail'", [MAIL], [key]).ids == [expected]


def test_mail_without_a_message_id_has_an_id() -> None:
    """It is an observation like any other."""
    made = decoded("format = 'mail'", [b"\n\nhello"], [None])

    assert made.ids == [mail_key(b"\n\nhello")]
    assert not made.rejected


def test_mail_without_a_value_is_a_dead_letter() -> None:
    """A deleted record is no mail. An empty one is."""
    made = decoded("format = 'mail'", [None, b""])

    assert [error.reason for error in made.rejected.values()] == ["unparsable"]
    assert list(made.rejected) == [0]


@pytest.mark.parametrize(
    ("value", "key", "reason"),
    [
        ("naïve £1".encode(), b"1", None),
        (b"", b"1", None),
        (b'{"id": 1}', b"1", None),
        (b"caf\xe9", b"1", "unparsable"),
        (None, b"1", "unparsable"),
        (b"x" * (2**20 + 1), b"1", "oversize"),
        (b"no key", None, "no_id"),
    ],
)
def test_text_is_the_whole_record(
    value: bytes | None, key: bytes | None, reason: str | None
) -> None:
    """In UTF-8, under the id of its key."""
    made = decoded("format = 'text'", [value], [key])

    assert [error.reason for error in made.rejected.values()] == ([reason] if reason else [])
    if reason is None:
        assert value is not None
        assert made.rows.text[0, 0] == value.decode()
        assert made.ids == ["1"]


def test_mail_in_a_json_field() -> None:
    """Its fields stand beside those of [features]; a record without it has only the latter."""
    lines = "mail = 'raw'\n[features]\nuser = 'categorical'"
    values = [{"id": 1, "raw": ENCODED, "user": "jo"}, {"id": 2, "user": "jo"}, {"id": 3, "raw": 7}]
    made = decoded(lines, [json.dumps(value).encode() for value in values], [None] * 3)

    assert made.ids[:2] == ["1", "2"]
    assert made.rows.categorical[:2].tolist() == [["jo"], ["jo"]]
    assert made.rows.text[0].tolist().count("hi") == 1
    assert set(made.rows.text[1].tolist()) == {None}
    assert made.rejected[2].reason == "unparsable"


def test_strange_json_around_a_mail_is_read_as_without_one() -> None:
    """By the same rules: NaN is a missing value, and nesting is bounded."""
    documents = MailField("raw")

    assert documents(b'{"x": NaN, "raw": "%s"}' % ENCODED.encode())["subject"] == "hi"
    with pytest.raises(RecordError, match="nesting"):
        documents(b'{"x": ' + b"[" * 200 + b"]" * 200 + b"}")


ODD_JSON = (
    *(b'{"x": %s}' % x for x in (b"NaN", b"1e400", b"-0", b"1.0", b"9" * 30, b"9" * 5000, b"true")),
    *(b'{"x": %s}' % x for x in (b'"\\ud800"', b'"\\u0000"', b'"\xff"', b"[1, {}]", b"01", b"1,")),
    *(b'{"x": 1, "x": "2"}', b"\xef\xbb\xbf{}", b" {} ", b"[]", b"7", b"", b"{", b'{"x": "\n"}'),
    *(b"[" * 200, b'{"x": ' * 200, b'{"x": "' + b"[" * 200 + b'"}', '{"ä": "ß"}'.encode("utf-16")),
)


@pytest.mark.parametrize("value", ODD_JSON)
def test_records_around_mails_are_read_quickly_by_the_same_rules(value: bytes) -> None:
    """The quick parser gives what the standard library gives, or leaves the record to it."""

    def read(parser: Callable[[bytes], object]) -> object:
        try:
            return repr(parser(value))
        except RecordError as error:
            return error.reason, error.detail

    assert read(parse_quickly) == read(parse_document)


@pytest.mark.parametrize("name", ["mail", "text"])
def test_translator_knows_only_observations_as_bytes(name: str) -> None:
    """Labels and predictions are JSON."""
    translator = Translator(configured(f"format = '{name}'"))
    document = {"id": "7", "mail": ENCODED, "text": "www.b.com"}
    label = b'{"id": "7", "label": "spam"}'

    value = translator.record("mails", document)

    assert value == (MAIL if name == "mail" else b"www.b.com")
    assert translator.document(value)["text"] == "www.b.com"
    assert json.loads(translator.observation_as_json(value))["text"] == "www.b.com"
    assert translator.records("verdicts", [label]) == [label]
    assert translator.as_json(label) == label
    assert translator.knows("mails")
    assert translator.knows("verdicts")
    with pytest.raises(ConfigError, match=r"--register needs \[input\] format avro"):
        translator.register("mails", "{}")


@pytest.mark.parametrize("document", [{}, {"mail": 7}, {"mail": "é"}, {"text": 7}])
def test_document_without_the_record_is_refused(document: dict[str, object]) -> None:
    """With the name of the field."""
    for name in ("mail", "text"):
        with pytest.raises(ValueError, match=name):
            Translator(configured(f"format = '{name}'")).record("mails", document)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("format = 'mail'\nlabel = 'y'", "have no label inside"),
        ("format = 'text'\nmail = 'raw'", "mail is a field of JSON records"),
        ("format = 'mail'\n[features]\nsubject = 'categorical'", 'subject = "text"'),
        ("format = 'mail'\n[features]\nsubjct = 'text'", "have the fields subject"),
        ("mail = 'raw'\n[features]\nsubject = 'text'", "subject is a field of the mail"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(lines: str, words: str) -> None:
    """With what is possible."""
    with pytest.raises(ConfigError, match=words):
        configured(lines)


def test_some_fields_of_a_mail_can_be_chosen() -> None:
    """The others are ignored."""
    config = configured("format = 'mail'\n[features]\nsubject = 'text'\ntext = 'text'")

    assert config.declared_schema is not None
    assert config.declared_schema.text == ("subject", "text")


def test_versions_are_part_of_the_identity() -> None:
    """Of mail only: nothing parses a text."""
    versions = wire_format("mail").versions()

    assert configured("format = 'mail'").identity()["input"]["parser"] == versions
    assert configured("mail = 'raw'").identity()["input"]["parser"] == versions
    assert "parser" not in configured("format = 'text'").identity()["input"]
    assert "parser" not in configured("").identity()["input"]


@pytest.mark.parametrize("text", [MAIL.decode(), "!!!", "QUJ", "QUJD-_", "QUJD\0", "QUJD====QUJD"])
def test_a_mail_of_a_request_is_base64_and_nothing_else(text: str) -> None:
    """A mail as it is would else be read as if it were base64, with a verdict on nonsense."""
    documents = JsonDocuments(wire_format("mail"))

    with pytest.raises(RecordError, match="expected a mail in base64"):
        documents(json.dumps({"id": "7", "mail": text}).encode())


def test_base64_may_be_in_lines() -> None:
    """As `base64` and `email` write it; topics keep the decoder that they had."""
    folded = base64.encodebytes(MAIL * 9).decode().replace("\n", "\r\n")
    value = json.dumps({"id": "7", "mail": folded}).encode()

    size = f"size_{len(MAIL * 9).bit_length()}"
    assert size in JsonDocuments(wire_format("mail"))(value)["structure"].split()
    empty = MailField("mail")(json.dumps({"mail": "!!!"}).encode())
    assert "size_0" in empty["structure"].split()


FILTERED = b"X-Spam-Status: No, score=-9\nX-Our-Id: wombat\nStatus: RO\nX-Mailer: y\n" + MAIL


@pytest.mark.parametrize("lines", ["format = 'mail'", "mail = 'raw'"])
def test_headers_that_were_added_later_are_no_evidence(lines: str) -> None:
    """In a topic and in a request: those of other filters, and those that are configured."""
    config = configured(f"{lines}\n[mail]\nignore_headers = ['X-Our-*']")
    field = "mail" if "format" in lines else "raw"
    schema = config.declared_schema
    assert schema is not None
    spec = shard_of(config, schema).spec
    record = json.dumps({"id": "7", field: base64.b64encode(FILTERED).decode()}).encode()
    value = FILTERED if "format" in lines else record

    for made in (
        spec.decoder(SchemaBook()).decode([b"k"], [value]),
        spec.decoder().decode([b"k"], [record]),
    ):
        headers = dict(zip(schema.text, made.rows.text[0], strict=True))["headers"]
        assert "mailer_odd" in headers.split()


def test_headers_that_are_ignored_are_part_of_the_identity() -> None:
    """Whatever their order and case; `relearn` may change them, and an old model keeps its own."""
    first, second = (
        configured(f"format = 'mail'\n[mail]\nignore_headers = {names}")
        for names in ("['X-B', 'x-a*']", "['x-a*', 'x-b', 'x-b']")
    )
    plain = configured("format = 'mail'")
    difference = identity_difference(plain.identity(), first.identity())

    assert first.identity() == second.identity()
    assert difference == ['input.parser.ignored_headers: was not set, now "x-a* x-b"']
    assert relearnable(difference)
    assert plain.with_settings(first.identity()).parser == first.parser
    assert first.with_settings(plain.identity()).parser == plain.parser


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("format = 'mail'\n[mail]\nignore_headers = ['*']", "such as X-Our-*, got '*'"),
        ("format = 'mail'\n[mail]\nignore_headers = ['a: b']", "such as X-Our-*, got 'a: b'"),
        ("format = 'text'\n[mail]\nignore_headers = ['x']", "is for mails"),
    ],
)
def test_wrong_headers_are_one_line(lines: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(expected)):
        configured(lines)
