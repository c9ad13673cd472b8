"""Differences that more than one test meets."""

from __future__ import annotations

from compat_tests.differential.comparison import Listed

MIN_ISR_OF_ALL = "min.insync.replicas of all brokers"
MIN_ISR_IS_WRITTEN = Listed(
    "",
    r"\[min\.insync\.replicas\]",
    "Kafka writes it into its metadata when that is made, where eligible leader replicas are on.",
)

SAYS_WHY_NOT_FOUND = "why nobody looks after a key"
WHY_NOBODY_IS_FOUND = Listed(
    "^FIND_COORDINATOR",
    r"\.error_message: kafka '', pyk 'some words'$",
    "Kafka tells the code alone, where a key is none of a share partition.",
)

SAYS_WHY = "why a batch is refused"
WHY_IT_IS_REFUSED = Listed(
    "^PRODUCE",
    r"\.error_message: kafka None, pyk 'some words'$",
    "Kafka tells the code alone. Clients show the words where there are any.",
)
