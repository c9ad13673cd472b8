"""Named tuples and enumerations as Python has them, which cost little to declare.

Python compiles code for each of its named tuples and for each annotation in it. That takes 100 us,
and an enumeration as much, and 15 us for a member. A broker that starts has forty of the ones, a
dozen of the others, and two hundred members. Type checkers see Python's own, and a test compares
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enum import Enum as Enum
    from enum import IntEnum as IntEnum
    from enum import StrEnum as StrEnum
    from typing import NamedTuple as NamedTuple
else:
    from _collections import _tuplegetter

    PLAIN_INSTANCES = 20

    class _Tuple(tuple):
        """What named tuples have in common."""

        __slots__ = ()

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, **changes):
            return type(self)(**{**self._asdict(), **changes})

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            fields = (f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({', '.join(fields)})"

        def __getnewargs__(self):
            return tuple(self)

    def _new_plainly(cls, *values, **named):
        """Stands for `__new__` while few instances were made: to compile it takes as long as to
        make a hundred of them."""
        cls._made += 1
        if named or len(values) != len(cls._fields) or cls._made > PLAIN_INSTANCES:
            return _compile_new(cls)(cls, *values, **named)
        return tuple.__new__(cls, values)

    def _compile_new(cls):
        arguments = "".join(f"{field}, " for field in cls._fields)
        new = eval(f"lambda cls, {arguments}: new(cls, ({arguments}))", {"new": tuple.__new__})
        new.__defaults__ = tuple(cls._field_defaults.values())
        cls.__new__ = staticmethod(new)
        return new

    class _NamedTupleMeta(type):
        def __new__(meta, name, bases, body):
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body[field] for field in fields if field in body}
            assert list(defaults) == list(fields[len(fields) - len(defaults) :]), name
            body |= {field: _tuplegetter(place, None) for place, field in enumerate(fields)}
            body |= {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
            # What is behind it is Generic, where there is anything.
            new = {"__slots__": (), "__new__": _new_plainly, "_made": 0}
            return type(name, (_Tuple, *bases[1:]), {**new, **body})

    NamedTuple = type.__new__(_NamedTupleMeta, "NamedTuple", (), {})

    class _EnumMeta(type):
        def __new__(meta, name, bases, body):
            # Python 3.13 notes the line of a class among what is in it.
            values = {
                key: value
                for key, value in body.items()
                if type(value) in (int, str) and not key.startswith("__")
            }
            cls = type.__new__(meta, name, bases, body)
            cls.__members__ = {key: cls._member(key, value) for key, value in values.items()}
            cls._by_value = {member.value: member for member in cls.__members__.values()}
            for key, member in cls.__members__.items():
                type.__setattr__(cls, key, member)
            return cls

        def _member(cls, name, value):
            member = cls.__new__(cls, value)
            member.name = name
            member.value = value
            return member

        def __call__(cls, value):
            found = cls._by_value.get(value)
            if found is None:
                raise ValueError(f"{value!r} is not a valid {cls.__name__}")
            return found

        def __getitem__(cls, name):
            return cls.__members__[name]

        def __iter__(cls):
            return iter(cls.__members__.values())

        def __len__(cls):
            return len(cls.__members__)

        def __contains__(cls, member):
            return type(member) is cls

    class Enum(metaclass=_EnumMeta):
        def __new__(cls, value):
            return object.__new__(cls)

        def __repr__(self) -> str:
            return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

        def __str__(self) -> str:
            return f"{type(self).__name__}.{self.name}"

        def __reduce__(self) -> Any:
            return type(self), (self.value,)

    class IntEnum(Enum, int):
        __new__ = int.__new__

        def __str__(self) -> str:
            return str(self.value)

    class StrEnum(Enum, str):
        __new__ = str.__new__

        def __str__(self) -> str:
            return self.value
