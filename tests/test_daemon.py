"""A broker as a process shows its pages where it can."""

from __future__ import annotations

import pytest

from pyk.daemon import HttpWish, open_pages
from pyk.telemetry.http import CannotListen
from pyk.telemetry.pages import Status


async def test_the_usual_port_for_metrics_may_be_taken_by_another_broker() -> None:
    wish = HttpWish("127.0.0.1", None, 0)
    async with open_pages(wish, Status()) as first:
        assert first is not None
        async with open_pages(wish._replace(usual_port=first[1]), Status()) as second:
            assert second is not None
            assert second[1] != first[1]
        with pytest.raises(CannotListen):
            async with open_pages(wish._replace(port=first[1]), Status()):
                pass
