"""The same command lines against Apache Kafka and against pyk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from compat_tests.kafka.server import kafka_server
from tests.cli.commands import Done, pyk
from tests.clients.brokers import running


@dataclass(frozen=True)
class Side:
    name: str
    address: str
    data_dir: Path

    def pyk(self, *arguments: str, stdin: bytes = b"") -> Done:
        return pyk(*arguments, bootstrap=self.address, stdin=stdin)

    def plain(self, text: str) -> str:
        """Without ids, addresses, times and places, of which each side has its own."""
        port = self.address.rpartition(":")[2]
        text = text.replace(str(self.data_dir), "DATA").replace(port, "PORT")
        text = re.sub(r'(?<![\w-])"?(?=[\w-]*[A-Z0-9])[\w-]{22}"?(?![\w-])', "UUID", text)
        text = re.sub(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME", text)
        text = re.sub(r"\b1[789]\d{11}\b", "TIME", text)
        return re.sub(r" +", " ", text)


@contextmanager
def sides(data_dir: Path, options: Mapping[str, str] = {}) -> Iterator[tuple[Side, Side]]:
    """Kafka, and then pyk."""
    with ExitStack() as stack:
        kafka = stack.enter_context(kafka_server(options))
        pairs = [word for pair in options.items() for word in ("-o", "=".join(pair))]
        broker = stack.enter_context(running(data_dir, *pairs))
        yield (
            Side("kafka", kafka.bootstrap_servers, kafka.data_dir),
            Side("pyk", broker.address, broker.data_dir),
        )
