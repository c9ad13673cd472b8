"""CRC-32C, from the extension module of the package `crc32c` alone.

The package around that looks up its own version when it is imported, which takes longer than all of
wire does.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Final


def _load() -> Callable[..., int]:
    package = PathFinder.find_spec("crc32c")
    places = package.submodule_search_locations if package else None
    found = PathFinder.find_spec("_crc32c", places) if places else None
    extension = found.loader.create_module(found) if found and found.loader else None
    if found is None or found.loader is None or extension is None:
        from crc32c import crc32c

        return crc32c
    found.loader.exec_module(extension)
    function: Callable[..., int] = extension.crc32c
    return function


crc32c: Final = _load()
"""Of some bytes, going on from the checksum of those before them, if one is given."""
