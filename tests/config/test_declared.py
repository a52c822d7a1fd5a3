"""Fields from `--fields`, a JSON Schema and an Avro schema: kinds and reasons."""

from __future__ import annotations

from typing import Any

import pytest

from consumers.base.errors import ConfigError
from consumers.config.declared.fields import Declared, given, without_label
from consumers.config.declared.schemas import DEEPEST, avro_fields, json_schema_fields


def kinds(declared: list[Declared]) -> dict[str, str | None]:
    return {each.field.name: each.field.kind for each in declared}


def why(declared: list[Declared], name: str) -> str:
    return next(each.field.about for each in declared if each.field.name == name)


def json_fields(properties: dict[str, Any], **more: Any) -> list[Declared]:
    return json_schema_fields({"type": "object", "properties": properties, **more}, "orders.json")


def avro(*fields: tuple[str, Any], **more: Any) -> list[Declared]:
    record = {"type": "record", "name": "Order", **more}
    named = [{"name": name, "type": of} for name, of in fields]
    return avro_fields({**record, "fields": named}, "order.avsc")


@pytest.mark.parametrize("word", ["numeric", "binary", "categorical", "text"])
def test_each_kind_of_features_can_be_given(word: str) -> None:
    """The words are those of [features]."""
    assert kinds(given([f"field:{word}"])) == {"field": word}


def test_field_without_a_kind_is_categorical_and_says_so() -> None:
    """A category takes text, numbers and truth values, so no value becomes a dead letter."""
    declared = given(["amount:numeric, country", "a.b"])

    assert kinds(declared) == {"amount": "numeric", "country": "categorical", "a.b": "categorical"}
    assert "without a kind" in why(declared, "country")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("amount:float", "got 'float'; use amount:numeric"),
        ("amount:numerik", "got 'numerik'; use amount:numeric"),
        ("amount:%", "got '%'; use one of them"),
        ("a,,b", "expected NAME or NAME:KIND, got ''"),
        (":numeric", "expected NAME or NAME:KIND, got ':numeric'"),
        ("a,b:text,a", "a is there twice"),
        ("a" * 1001, "has 1,001 characters, expected at most 1,000"),
        (",".join(f"f{i}" for i in range(1001)), "1,001 fields, expected at most 1,000"),
    ],
)
def test_wrong_fields_are_refused_with_what_to_write(text: str, message: str) -> None:
    """Each error says what came and what to do."""
    with pytest.raises(ConfigError, match="--fields") as error:
        given([text])

    assert message in str(error.value)


def test_json_schema_gives_kinds_by_types() -> None:
    """Numbers, truth values, enumerations and strings, nullable or not."""
    declared = json_fields(
        {
            "amount": {"type": "number"},
            "items": {"type": ["integer", "null"]},
            "gift": {"type": "boolean"},
            "flag": {"enum": [0, 1]},
            "channel": {"enum": ["web", "shop", None]},
            "country": {"type": "string"},
            "grade": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
            "price": {"$ref": "#/$defs/money"},
            "mixed": {"allOf": [{"type": "number"}, {"minimum": 0}]},
            "code": {"type": "string", "nullable": True},
        },
        required=["amount", "items", "channel", "code"],
        **{"$defs": {"money": {"type": "number"}}},
    )

    assert kinds(declared) == {
        "amount": "numeric",
        "items": "numeric",
        "gift": "binary",
        "flag": "binary",
        "channel": "categorical",
        "country": "categorical",
        "grade": "categorical",
        "price": "numeric",
        "mixed": "numeric",
        "code": "categorical",
    }
    assert why(declared, "amount") == "numbers"
    assert why(declared, "items") == "integers; may be null"
    assert why(declared, "gift") == "true or false; optional"
    assert why(declared, "channel") == "one of 2 values; may be null"
    assert why(declared, "code").endswith("may be null")


def test_json_schema_names_what_it_leaves_out_and_why() -> None:
    """A value that never comes again, or that no model supports, is no feature."""
    declared = json_fields(
        {
            "tags": {"type": "array", "items": {"type": "string"}},
            "extra": {"type": "object"},
            "made": {"type": "string", "format": "date-time"},
            "session": {"type": "string", "format": "uuid"},
            "customer_id": {"type": "string"},
            "shop_id": {"type": "integer"},
            "kind": {"const": "order"},
            "any": {},
            "far": {"$ref": "https://example.org/far.json"},
            "gone": {"$ref": "#/$defs/gone"},
            "weird": {"type": "decimal"},
            "never": False,
            "self": {"$ref": "#"},
            "shape": {
                "oneOf": [
                    {"properties": {"r": {"type": "number"}}},
                    {"properties": {"a": {"type": "number"}}},
                ]
            },
        }
    )
    left_out = {name for name, kind in kinds(declared).items() if kind is None}

    assert left_out >= {
        *("tags", "extra", "made", "session", "customer_id", "shop_id", "kind", "any"),
        *("far", "gone", "weird", "never", "shape"),
    }
    assert why(declared, "tags").startswith("lists, which no model supports")
    assert why(declared, "made").startswith("format date-time: future ones will all be new")
    assert "named like an id" in why(declared, "customer_id")
    assert "refers to another document" in why(declared, "far")
    assert "which is not there" in why(declared, "gone")
    assert "its type is decimal, which" in why(declared, "weird")
    assert "one of several objects" in why(declared, "shape")


def test_json_schema_that_contains_itself_is_cut() -> None:
    """A recursive schema, here of two fields that each contain both, ends."""
    schema = {"properties": {"n": {"type": "number"}, "a": {"$ref": "#"}, "b": {"$ref": "#"}}}

    assert len(json_schema_fields(schema, "tree.json")) <= 2001


def test_nested_objects_become_dotted_paths() -> None:
    """A path is the name of a nested field in [features]; a dot in its own name ends that."""
    declared = json_fields(
        {"shop": {"properties": {"city": {"type": "string"}, "a.b": {"type": "number"}}}}
    )

    assert kinds(declared) == {"shop.city": "categorical", "shop.a.b": None}


def test_required_fields_of_an_alternative_are_not_optional() -> None:
    """The object may be null, but where it is there its city is."""
    shop = {"properties": {"city": {"type": "string"}, "size": {"type": "number"}}}
    declared = json_fields({"shop": {"anyOf": [{**shop, "required": ["city"]}, {"type": "null"}]}})

    assert "optional" not in why(declared, "shop.city")
    assert "optional" in why(declared, "shop.size")


def test_avro_gives_kinds_by_types() -> None:
    """Primitive types, unions, enums, nested records, and types by their names."""
    symbols = {"type": "enum", "name": "Channel", "symbols": ["WEB", "SHOP"]}
    declared = avro(
        ("amount", "double"),
        ("items", ["null", "int"]),
        ("gift", "boolean"),
        ("country", {"type": "string", "avro.java.string": "String"}),
        ("first", symbols),
        ("last", ["null", "Channel"]),
        ("again", "org.shop.Channel"),
        ("either", ["string", "long"]),
        ("shop", {"type": "record", "name": "Shop", "fields": [{"name": "size", "type": "long"}]}),
        ("other", "Shop"),
        namespace="org.shop",
    )

    assert kinds(declared) == {
        "amount": "numeric",
        "items": "numeric",
        "gift": "binary",
        "country": "categorical",
        "first": "categorical",
        "last": "categorical",
        "again": "categorical",
        "either": "categorical",
        "shop.size": "numeric",
        "other.size": "numeric",
    }
    assert why(declared, "last") == "one of 2 values; may be null"
    assert why(declared, "items") == "integers; may be null"


def test_avro_type_is_known_by_its_name_as_deep_as_fields_are_read() -> None:
    """Each record in a union is two steps of the schema."""
    inside: Any = {"type": "enum", "name": "Deep", "symbols": ["A", "B"]}
    for n in range(DEEPEST):
        fields = [{"name": "x", "type": inside}]
        inside = ["null", {"type": "record", "name": f"R{n}", "fields": fields}]
    declared = avro(("first", inside), ("again", "Deep"))

    assert kinds(declared) == {"first" + ".x" * DEEPEST: "categorical", "again": "categorical"}


def test_avro_field_without_a_name_hides_no_other() -> None:
    """Where the schema is registered, the registry names what is wrong with it."""
    fields = [{"name": 5, "type": "long"}, "x", {"name": "y", "type": "long"}]
    record = {"type": "record", "name": "R", "fields": fields}

    assert kinds(avro_fields(record, "r.avsc")) == {"y": "numeric"}


def test_avro_names_what_it_leaves_out_and_why() -> None:
    """Times, ids, bytes, lists, maps, types that are not there, and records in themselves."""
    declared = avro(
        ("at", {"type": "long", "logicalType": "timestamp-millis"}),
        ("day", ["null", {"type": "int", "logicalType": "date"}]),
        ("key", {"type": "string", "logicalType": "uuid"}),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9}),
        ("blob", "bytes"),
        ("tags", {"type": "array", "items": "string"}),
        ("extra", {"type": "map", "values": "string"}),
        ("gone", "Gone"),
        ("parent", ["null", "Order"]),
        ("nothing", "null"),
    )

    assert set(kinds(declared).values()) == {None}
    assert why(declared, "day") == "date: future ones will all be new; may be null"
    assert why(declared, "price") == "a decimal, which is bytes: send it as a double"
    assert why(declared, "extra") == "a map: its names are not known; send a record"
    assert why(declared, "gone") == "its type 'Gone' is not in the schema"


@pytest.mark.parametrize(
    ("types", "about"),
    [
        ({"type": "boolean"}, "true or false"),
        ({"enum": ["fraud", "ok"]}, "one of 2 values"),
        ({"type": ["integer", "null"]}, "integers"),
    ],
)
def test_label_is_no_feature(types: dict[str, Any], about: str) -> None:
    """Strings, integers and truth values are classes."""
    declared = json_fields({"amount": {"type": "number"}, "id": {"type": "string"}, "y": types})

    fields, label = without_label(declared, "y", "id", "orders.json", strict=True)

    assert [field.name for field in fields] == ["amount"]
    assert label == about


def test_label_of_numbers_is_refused() -> None:
    """A model predicts classes."""
    with pytest.raises(ConfigError, match=r"got number in orders.json; a model predicts classes"):
        without_label(json_fields({"y": {"type": "number"}}), "y", "id", "orders.json", strict=True)


def test_label_that_the_schema_lacks_is_refused_with_a_near_one() -> None:
    """A schema has all fields, so the name is wrong; `--fields` need not have the label."""
    declared = json_fields({"amount": {"type": "number"}, "fraud": {"type": "boolean"}})

    assert without_label(given(["amount"]), "fraud", "id", "--fields", strict=False)[1] is None
    with pytest.raises(
        ConfigError, match=r"no field 'frad' in orders.json; .*; did you mean 'fraud'"
    ):
        without_label(declared, "frad", "id", "orders.json", strict=True)
