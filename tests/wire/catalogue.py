"""Every message that pyk declares, found by looking: nothing can be left out of a test by hand."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pyk.wire.messages
import pyk.wire.payloads
from pyk.types import Versions
from pyk.wire import headers
from pyk.wire.message import Layout, layout


def _declared() -> dict[str, type]:
    modules = [headers]
    for package in (pyk.wire.messages, pyk.wire.payloads):
        modules += [
            import_module(f"{package.__name__}.{found.name}")
            for found in pkgutil.iter_modules(package.__path__)
        ]
    found: dict[str, type] = {}
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == module.__name__:
                assert isinstance(getattr(value, "__layout__", None), Layout), value
                if not is_struct(value):
                    assert name not in found, name
                    found[name] = value
    return found


def is_struct(declared: type) -> bool:
    """Whether it is a part of a message, and has no versions of its own."""
    return layout(declared).versions == Versions.parse("0+")


MESSAGES: dict[str, type] = _declared()


def versions(declared: type) -> range:
    lowest, highest = layout(declared).versions
    return range(lowest, highest + 1)
