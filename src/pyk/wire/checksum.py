"""CRC-32C, from the extension module of the package `crc32c` alone.

The package around that looks up its own version when it is imported, which takes longer than all of
wire does.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Final


def _load() -> Callable[..., int]:
    package = find_spec("crc32c")
    places = package.submodule_search_locations if package else None
    found = PathFinder.find_spec("_crc32c", places) if places else None
    if found is None or found.loader is None:
        from crc32c import crc32c

        return crc32c
    extension = module_from_spec(found)
    found.loader.exec_module(extension)
    function: Callable[..., int] = extension.crc32c
    return function


crc32c: Final = _load()
"""Of some bytes, going on from the checksum of those before them, if one is given."""
