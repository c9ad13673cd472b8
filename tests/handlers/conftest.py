"""The broker that most tests of handlers need."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyk.handlers.context import Context
from tests.handlers.brokers import open_context


@pytest.fixture
async def broker() -> AsyncIterator[Context]:
    async with open_context() as context:
        yield context
