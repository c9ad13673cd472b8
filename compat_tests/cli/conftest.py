from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.cli.sides import Side, sides


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with sides(tmp_path_factory.mktemp("data")) as both:
        yield both
