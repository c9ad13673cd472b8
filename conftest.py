"""What all tests need."""

from __future__ import annotations

import signal

from hypothesis import settings


def pytest_configure() -> None:
    # How long an example takes says more about the machine than about what is tested.
    settings.register_profile("pyk", deadline=None)
    settings.load_profile("pyk")
    # A shell starts what it runs in the background with interrupts ignored, and children inherit
    # that: commands that tests interrupt would go on for ever.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
