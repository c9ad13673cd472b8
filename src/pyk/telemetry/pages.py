"""The pages of a broker: /metrics for Prometheus, /live and /ready for whoever keeps it running."""

from __future__ import annotations

from msgspec import Struct

from pyk.metrics import CONTENT_TYPE, exposition
from pyk.telemetry.figures import Figures
from pyk.telemetry.http import Page, Pages


class Status(Struct):
    """How far a broker is. It is alive whatever that is: a loop that is stuck answers nothing."""

    figures: Figures | None = None
    """There are none before it serves."""
    is_stopping: bool = False

    @property
    def pages(self) -> Pages:
        return {"/metrics": self._metrics, "/live": self._live, "/ready": self._ready}

    def _metrics(self) -> Page:
        families = self.figures.families() if self.figures else ()
        return Page(exposition(families), content_type=CONTENT_TYPE)

    def _live(self) -> Page:
        return Page("alive\n")

    def _ready(self) -> Page:
        if self.is_stopping:
            return Page("stopping\n", 503)
        return Page("ready\n") if self.figures else Page("starting\n", 503)
