"""What a client is told that it may do: bits by the numbers of Kafka's operations (KIP-430).

Without an authorizer everything is allowed.
"""

from __future__ import annotations

from typing import Final

NOT_ASKED_FOR: Final = -(2**31)
ALL_OF_TOPIC: Final = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
ALL_OF_CLUSTER: Final = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
ALL_OF_GROUP: Final = sum(1 << operation for operation in (3, 6, 8, 10, 11))
