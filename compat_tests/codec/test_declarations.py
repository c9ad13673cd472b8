"""pyk's declarations say what Kafka's schemas say: names, types, versions, tags, defaults and all.

The run ends with the table of all messages: declared, or left out and why.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable

import pytest

from compat_tests.kafka import jars, schemas
from compat_tests.kafka.schemas import Schema
from pyk.types import VERSION_MAX, Versions
from pyk.wire.apis import UNDECLARED, ApiKey
from pyk.wire.fields import Field, Kind
from pyk.wire.message import Layout, layout
from tests.wire.catalogue import MESSAGES

LEFT_OUT = {
    "DefaultPrincipalData": "broker to KRaft controller",
    "KRaftVersionRecord": "KRaft quorum",
    "LeaderChangeMessage": "KRaft quorum",
    "SnapshotHeaderRecord": "KRaft quorum",
    "SnapshotFooterRecord": "KRaft quorum",
    "VotersRecord": "KRaft quorum",
}


def reason_to_leave_out(schema: Schema) -> str | None:
    if schema.type in ("request", "response"):
        assert schema.api_key is not None
        return UNDECLARED.get(ApiKey(schema.api_key))
    return LEFT_OUT.get(schema.name)


def test_every_message_is_declared_or_left_out_for_a_reason(
    known: dict[str, Schema], report: Callable[[str], None]
) -> None:
    declared = 0
    for name, schema in sorted(known.items()):
        reason = reason_to_leave_out(schema)
        declared += reason is None
        report(f"{name:48} {schema.valid_versions!s:>6}  {reason or 'declared'}")
        assert (name in MESSAGES) == (reason is None), name
    report(f"{declared} messages declared, {len(known) - declared} left out")
    assert MESSAGES.keys() <= known.keys()


def names() -> Iterable[str]:
    return sorted(MESSAGES)


@pytest.mark.parametrize("name", names())
def test_a_declaration_says_what_the_schema_says(name: str, known: dict[str, Schema]) -> None:
    schema, ours = known[name], layout(MESSAGES[name])
    assert str(ours.versions) == str(schema.valid_versions)
    valid = ours.versions
    assert within(ours.flexible, valid) == within(convert(schema.flexible_versions), valid)
    if schema.type in ("request", "response"):
        assert (ours.api_key, ours.record_type) == (schema.api_key, None)
    else:
        assert (ours.api_key, ours.record_type) == (None, schema.api_key)
    compare_fields(name, ours, schema.fields, valid)


def compare_fields(
    path: str, ours: Layout, theirs: tuple[schemas.Field, ...], valid: Versions
) -> None:
    assert [spelled(f.name) for f in ours.fields] == [spelled(f.name) for f in theirs], path
    for mine, other in zip(ours.fields, theirs, strict=True):
        compare_field(f"{path}.{mine.name}", mine, other, valid)


def compare_field(path: str, ours: Field, theirs: schemas.Field, valid: Versions) -> None:
    there = within(convert(theirs.versions), valid)
    assert within(ours.versions, valid) == there, path
    assert type_of(ours.kind) == ("[]" * theirs.is_array + plain_type(theirs)), path
    assert within(ours.nullable, there) == within(convert(theirs.nullable_versions), there), path
    assert ours.tag == theirs.tag, path
    if theirs.tag is not None:
        assert within(convert(theirs.tagged_versions), valid) == there, path
    assert ours.ignorable == theirs.ignorable, path
    assert ours.compact == (theirs.flexible_versions is None), path
    assert comparable(ours.default) == theirs_comparable(theirs.default), path
    element = ours.kind.element or ours.kind
    if element.struct is not None:
        compare_fields(path, layout(element.struct), theirs.fields, there)


def spelled(name: str) -> str:
    return name.replace("_", "").lower()


def convert(versions: schemas.Versions) -> Versions:
    return Versions(versions.lowest, versions.highest)


def within(versions: Versions, valid: Versions) -> Versions:
    """What of the range matters: Kafka's own ranges reach beyond the versions that are left."""
    lowest = max(versions.lowest, valid.lowest)
    highest = min(versions.highest, valid.highest, VERSION_MAX)
    return Versions(lowest, highest) if lowest <= highest else Versions(0, -1)


def type_of(kind: Kind) -> str:
    if kind.element is not None:
        return "[]" + type_of(kind.element)
    return "struct" if kind.struct is not None else kind.name


def plain_type(field: schemas.Field) -> str:
    return "struct" if field.is_struct else field.element_type


def comparable(default: object) -> object:
    if hasattr(default, "__layout__"):
        fields = layout(type(default)).fields
        return {spelled(f.name): comparable(getattr(default, f.name)) for f in fields}
    return default


def theirs_comparable(default: object) -> object:
    if isinstance(default, dict):
        return {spelled(name): theirs_comparable(value) for name, value in default.items()}
    return default.bytes if isinstance(default, uuid.UUID) else default


def test_kafka_is_the_version_that_we_say() -> None:
    assert jars.KAFKA_VERSION == "4.3.1"
