"""Kafka's message schemas, read out of its jars as typed values.

Two readings are the generator's, not what the JSON seems to say: `"default": null` (a JSON null,
not the word "null") counts as no default at all, and `records` are null until they are set.
"""

import json
import re
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast, get_args

from compat_tests.kafka import jars

SOURCES = (
    ("kafka-clients", r"common/message/\w+\.json"),
    ("kafka-group-coordinator", r"common/message/\w+\.json"),
    ("kafka-transaction-coordinator", r"common/message/\w+\.json"),
    ("kafka-share-coordinator", r"common/message/\w+\.json"),
    ("kafka-storage", r"message/ProducerSnapshot\.json"),
)
OPEN = 32767
"""The highest version of a range without an end: Kafka's versions are int16."""

MessageType: TypeAlias = Literal[
    "request", "response", "header", "data", "coordinator-key", "coordinator-value"
]
Default: TypeAlias = (
    bool | int | float | str | bytes | uuid.UUID | list["Default"] | dict[str, "Default"] | None
)
_Json: TypeAlias = Mapping[str, object]

INTEGERS = frozenset({"int8", "int16", "uint16", "int32", "uint32", "int64"})
_IMPLICIT: Mapping[str, Default] = {
    **dict.fromkeys(INTEGERS, 0),
    "float64": 0.0,
    "bool": False,
    "string": "",
    "bytes": b"",
    "uuid": uuid.UUID(int=0),
    "records": None,
}


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends inclusive as in the schemas. Empty when highest < lowest."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """From `none`, `3`, `3-5` or `3+`."""
        if text == "none":
            return NONE
        if text.endswith("+"):
            return cls(int(text[:-1]), OPEN)
        lowest, _, highest = text.partition("-")
        return cls(int(lowest), int(highest or lowest))

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.lowest, self.highest + 1))

    def __bool__(self) -> bool:
        return self.lowest <= self.highest

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.highest == OPEN:
            return f"{self.lowest}+"
        return f"{self.lowest}" if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


NONE = Versions(0, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    name: str
    """As in the schema: TopicName."""
    type: str
    """As in the schema: int32, []string, Cursor, []PartitionData."""
    versions: Versions
    nullable_versions: Versions = NONE
    tag: int | None = None
    tagged_versions: Versions = NONE
    default: Default = field(hash=False)
    """What the generated class starts with. A struct's is a dict of its fields' by name."""
    ignorable: bool = False
    flexible_versions: Versions | None = None
    """Set only where the field differs from its message, as RequestHeader's ClientId does."""
    map_key: bool = False
    entity_type: str | None = None
    zero_copy: bool = False
    about: str = ""
    fields: tuple["Field", ...] = ()
    """Of the struct, or of the elements if they are structs; common structs are repeated here."""

    @property
    def json_name(self) -> str:
        """As in the generated classes and in the JSON of their converters: topicName."""
        return self.name[0].lower() + self.name[1:]

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element_type(self) -> str:
        """The type, without the array."""
        return self.type.removeprefix("[]")

    @property
    def is_struct(self) -> bool:
        """Whether the field, or each of its elements, is a struct."""
        return self.element_type not in _IMPLICIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    name: str
    type: MessageType
    api_key: int | None
    """The record type, for the records of coordinators. None for headers and data."""
    listeners: tuple[str, ...]
    valid_versions: Versions
    """Empty for what Kafka 4 has removed: no fields, and no generated class."""
    flexible_versions: Versions
    latest_version_unstable: bool
    fields: tuple[Field, ...]


def load() -> dict[str, Schema]:
    """Every schema, by name. Raises `jars.Missing`."""
    schemas = (parse(text) for text in _texts())
    return {schema.name: schema for schema in sorted(schemas, key=lambda schema: schema.name)}


def parse(text: str) -> Schema:
    """A schema from its JSON with // comments."""
    spec = _object(json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)))
    kind = spec["type"]
    assert kind in get_args(MessageType), kind
    structs = {str(struct["name"]): struct for struct in _objects(spec, "commonStructs")}
    api_key = spec.get("apiKey")
    assert api_key is None or isinstance(api_key, int)
    return Schema(
        name=str(spec["name"]),
        type=cast("MessageType", kind),
        api_key=api_key,
        listeners=tuple(str(name) for name in cast("list[object]", spec.get("listeners", []))),
        valid_versions=_versions(spec, "validVersions"),
        flexible_versions=_versions(spec, "flexibleVersions"),
        latest_version_unstable=bool(spec.get("latestVersionUnstable", False)),
        fields=_fields(spec, structs),
    )


def _texts() -> Iterator[str]:
    for artifact, pattern in SOURCES:
        with zipfile.ZipFile(jars.library() / f"{artifact}-{jars.KAFKA_VERSION}.jar") as jar:
            for name in jar.namelist():
                if re.fullmatch(pattern, name):
                    yield jar.read(name).decode()


def _fields(spec: _Json, structs: Mapping[str, _Json]) -> tuple[Field, ...]:
    return tuple(_field(child, structs) for child in _objects(spec, "fields"))


def _field(spec: _Json, structs: Mapping[str, _Json]) -> Field:
    kind = str(spec["type"])
    tagged = _versions(spec, "taggedVersions")
    shared = structs.get(kind.removeprefix("[]"))
    fields = _fields(shared if shared is not None else spec, structs)
    flexible = spec.get("flexibleVersions")
    entity = spec.get("entityType")
    tag = spec.get("tag")
    assert tag is None or isinstance(tag, int)
    return Field(
        name=str(spec["name"]),
        type=kind,
        # A few tagged fields leave their versions out.
        versions=_versions(spec, "versions") if "versions" in spec else tagged,
        nullable_versions=_versions(spec, "nullableVersions"),
        tag=tag,
        tagged_versions=tagged,
        default=_default(kind, spec.get("default"), fields),
        ignorable=bool(spec.get("ignorable", False)),
        flexible_versions=None if flexible is None else Versions.parse(str(flexible)),
        map_key=bool(spec.get("mapKey", False)),
        entity_type=None if entity is None else str(entity),
        zero_copy=bool(spec.get("zeroCopy", False)),
        about=str(spec.get("about", "")),
        fields=fields,
    )


def _default(kind: str, given: object, fields: tuple[Field, ...]) -> Default:
    if given == "null":
        return None
    if kind.startswith("[]"):
        assert given in (None, ""), given
        return []
    if given is None or given == "":
        return _IMPLICIT[kind] if kind in _IMPLICIT else {f.name: f.default for f in fields}
    text = str(given)
    if kind in INTEGERS:
        return int(text, 16) if text.lower().startswith("0x") else int(text)
    if kind == "bool":
        return text.lower() == "true"
    if kind == "float64":
        return float(text)
    assert kind == "string", (kind, given)
    return text


def _versions(spec: _Json, key: str) -> Versions:
    return Versions.parse(str(spec.get(key, "none")))


def _objects(spec: _Json, key: str) -> list[_Json]:
    children = spec.get(key, [])
    assert isinstance(children, list)
    return [_object(child) for child in children]


def _object(value: object) -> _Json:
    assert isinstance(value, dict), value
    return value
