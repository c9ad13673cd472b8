"""What is cheap to declare does what Python's own does, wherever pyk uses it."""

from __future__ import annotations

import copy
import enum
import pickle
import typing
from typing import Any, Generic, TypeVar

import pytest

from pyk import declared
from pyk.errors import ErrorCode
from pyk.types import TopicPartition
from pyk.wire.apis import ApiKey

T = TypeVar("T")


class Ours(declared.NamedTuple):
    """A place."""

    topic: str
    partition: int = 0
    epoch: int | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def first(cls) -> Ours:
        return cls("first")


class Pythons(typing.NamedTuple):
    topic: str
    partition: int = 0
    epoch: int | None = None


class Nothing(declared.NamedTuple):
    """Has no fields."""


class Several(declared.NamedTuple, Generic[T]):
    items: list[T]


class Colour(declared.IntEnum):
    RED = 1
    GREEN = -2


class PythonsColour(enum.IntEnum):
    RED = 1
    GREEN = -2


class Size(declared.Enum):
    SMALL = "s"
    LARGE = "l"


class PythonsSize(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Policy(declared.StrEnum):
    DELETE = "delete"
    COMPACT = "compact"


class PythonsPolicy(enum.StrEnum):
    DELETE = "delete"
    COMPACT = "compact"


@pytest.mark.parametrize("of", [Ours, Pythons])
def test_a_named_tuple_is_a_tuple_with_names(of: Any) -> None:
    it = of("t", partition=3)
    assert it == ("t", 3, None)
    assert (it.topic, it.partition, it.epoch) == ("t", 3, None)
    topic, *rest = it
    assert [topic, *rest] == list(it)
    assert hash(it) == hash(("t", 3, None))
    assert it < of("u")
    assert repr(it) == f"{of.__name__}(topic='t', partition=3, epoch=None)"
    assert it._replace(epoch=1) == of("t", 3, 1)
    assert it._asdict() == {"topic": "t", "partition": 3, "epoch": None}
    assert of._make(["t", 3, None]) == it
    assert of._fields == ("topic", "partition", "epoch")
    assert of._field_defaults == {"partition": 0, "epoch": None}
    assert pickle.loads(pickle.dumps(it)) == it
    assert type(copy.deepcopy(it)) is of
    assert not hasattr(it, "__dict__")
    with pytest.raises(AttributeError):
        it.topic = "other"


@pytest.mark.parametrize("of", [Ours, Pythons])
@pytest.mark.parametrize("given", [(), ("t", 1, 2, 3)])
def test_a_named_tuple_takes_what_it_has_names_for(of: Any, given: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="argument"):
        of(*given)
    with pytest.raises(TypeError, match="unknown"):
        of("t", unknown=1)


def test_the_first_and_the_later_instances_are_alike() -> None:
    class Fresh(declared.NamedTuple):
        number: int
        text: str = "t"

    made = [Fresh(number, "t") for number in range(100)]
    assert made == [Fresh(number) for number in range(100)]
    assert {type(each) for each in made} == {Fresh}


@pytest.mark.parametrize("of", [Ours, Pythons])
def test_a_named_tuple_is_matched_by_place(of: Any) -> None:
    match of("t", 1):
        case of(topic, 1):
            assert topic == "t"
        case _:
            pytest.fail("no match")


def test_a_named_tuple_has_methods_and_may_be_generic() -> None:
    assert Ours.first().name == "first-0"
    assert Ours.__doc__ == "A place."
    assert Several[int]([1]) == ([1],)
    assert TopicPartition("t", 0) == ("t", 0)
    assert Nothing() == Nothing() == ()


@pytest.mark.parametrize("of", [Colour, PythonsColour])
def test_a_member_is_a_number_with_a_name(of: Any) -> None:
    assert of.RED == 1
    assert (of.GREEN.name, of.GREEN.value) == ("GREEN", -2)
    assert isinstance(of.GREEN, of)
    assert of(-2) is of.GREEN
    assert of(of.RED) is of.RED
    assert of["RED"] is of.RED
    assert list(of) == [1, -2]
    assert len(of) == 2
    assert of.RED in of
    assert {of.RED: "r"}[1] == "r"
    assert f"{of.RED} {of.RED:02} {of.RED!s}" == "1 01 1"
    assert repr(of.RED) == f"<{of.__name__}.RED: 1>"
    assert pickle.loads(pickle.dumps(of.RED)) is of.RED
    assert copy.deepcopy(of.RED) is of.RED


@pytest.mark.parametrize("of", [Size, PythonsSize])
def test_a_member_is_itself_and_no_other(of: Any) -> None:
    assert of.SMALL != "s"
    assert (of.LARGE.name, of.LARGE.value) == ("LARGE", "l")
    assert of("l") is of.LARGE
    assert of["SMALL"] is of.SMALL
    assert list(of) == [of.SMALL, of.LARGE]
    assert of.SMALL in of
    assert {of.SMALL: 1}[of("s")] == 1
    assert str(of.SMALL) == f"{of.__name__}.SMALL"
    assert repr(of.SMALL) == f"<{of.__name__}.SMALL: 's'>"
    assert pickle.loads(pickle.dumps(of.SMALL)) is of.SMALL
    assert copy.deepcopy(of.SMALL) is of.SMALL


@pytest.mark.parametrize("of", [Policy, PythonsPolicy])
def test_a_member_is_a_text_with_a_name(of: Any) -> None:
    assert of.DELETE == "delete"
    assert of("delete") is of.DELETE
    assert sorted(of) == ["compact", "delete"]
    assert frozenset({of.DELETE}) == {"delete"}
    assert f"{of.DELETE} {of.DELETE!s} {of.DELETE:>7}" == "delete delete  delete"
    assert repr(of.DELETE) == f"<{of.__name__}.DELETE: 'delete'>"
    assert pickle.loads(pickle.dumps(of.DELETE)) is of.DELETE


@pytest.mark.parametrize("of", [Colour, PythonsColour, Size, PythonsSize, Policy, PythonsPolicy])
def test_what_is_no_member_is_an_error(of: Any) -> None:
    with pytest.raises(ValueError, match="7 is not a valid"):
        of(7)
    with pytest.raises(KeyError):
        of["BLUE"]


def test_kafkas_codes_and_keys_are_such() -> None:
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ApiKey(18).name == "API_VERSIONS"
    assert len(set(ApiKey)) == len(ApiKey) == 93
