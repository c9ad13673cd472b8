"""The `pyk` command."""

from __future__ import annotations

import click

from pyk import __version__
from pyk.cli.root import Lazy, Root


@click.group(cls=Root)
@click.version_option(__version__, prog_name="pyk")
def main() -> None:
    """A broker that Apache Kafka clients use as they use Kafka, and a command line for both."""


assert isinstance(main, Root)
main.subcommands = {
    "serve": Lazy("serve", "Run a broker until it is interrupted."),
    "topic": Lazy("topic", "Create, list, describe, alter, delete and trim topics."),
    "produce": Lazy("produce", "Send records to a topic."),
    "consume": Lazy("consume", "Print the records of topics."),
    "group": Lazy("group", "List, describe, seek and delete groups."),
    "queue": Lazy("queue", "List, describe, peek into, reset and redrive queues."),
    "transaction": Lazy("transaction", "Look into transactions, and end those that hang."),
    "config": Lazy("config", "Get, set, unset and explain configuration."),
    "cluster": Lazy("cluster", "Describe the cluster and its log directories."),
    "log": Lazy("log", "Look into data directories and files, offline."),
    "doctor": Lazy("doctor", "Find out why a broker cannot be reached."),
    "completion": Lazy("completion", "Print what completes commands in your shell."),
}
