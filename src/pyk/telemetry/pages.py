"""The pages of a broker: /metrics for Prometheus, /live and /ready for whoever keeps it running."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from pyk.log.recovery import Recovery
from pyk.metrics import CONTENT_TYPE, Family, exposition, gauge, one
from pyk.telemetry.http import Page, Pages
from pyk.telemetry.scrape import Scrapes


class Status(Struct):
    """How far a broker is. It is alive whatever that is: a loop that is stuck answers nothing."""

    scrapes: Scrapes | None = None
    """There are none before it serves."""
    is_stopping: bool = False
    recovery: Recovery = field(default_factory=Recovery)

    @property
    def pages(self) -> Pages:
        return {"/metrics": self._metrics, "/live": self._live, "/ready": self._ready}

    async def _metrics(self) -> Page:
        if self.scrapes is None:
            return Page(exposition(recovery_families(self.recovery)), content_type=CONTENT_TYPE)
        return Page(await self.scrapes.text(), content_type=CONTENT_TYPE)

    async def _live(self) -> Page:
        return Page(f"alive\n{self._progress}")

    async def _ready(self) -> Page:
        if self.is_stopping:
            return Page("stopping\n", 503)
        return Page("ready\n") if self.scrapes else Page(f"starting\n{self._progress}", 503)

    @property
    def _progress(self) -> str:
        """A line while logs are recovered, which may take long."""
        found = self.recovery
        if self.scrapes is not None or not found.logs_total:
            return ""
        size = f"{found.bytes / 2**30:.1f} of {found.bytes_total / 2**30:.1f} GiB"
        return f"recovering logs: {found.logs} of {found.logs_total}, {size}\n"


def recovery_families(recovery: Recovery) -> Iterator[Family]:
    """While a broker starts."""
    yield gauge("pyk_recovery_logs", "Logs to be recovered.", one(recovery.logs_total))
    yield gauge("pyk_recovery_logs_done", "Of those, the ones that are.", one(recovery.logs))
    yield gauge("pyk_recovery_bytes", "Their bytes.", one(recovery.bytes_total))
    yield gauge("pyk_recovery_bytes_done", "Of those, what was looked at.", one(recovery.bytes))
