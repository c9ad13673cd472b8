"""`pyk transaction`: who has what open, what holds readers back, and how to end it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from pyk.cli.offsets import parse_duration
from pyk.cli.options import complete_topics, complete_transactions, with_cluster
from pyk.cli.output import Format, Row, format_option, show, show_report, show_sections
from pyk.cli.root import REFUSED
from pyk.cli.transaction_description import (
    ABORTED,
    DESCRIBED,
    HANGING,
    LISTED,
    PLACE,
    PRODUCERS,
    TERMINATED,
    described,
    described_hanging,
    described_producer,
    listed,
)
from pyk.client.cluster import Cluster
from pyk.client.producers import (
    Producer,
    describe_producers,
    find_hanging,
    known_to_coordinators,
)
from pyk.client.producers import abort as write_abort
from pyk.client.transactions import (
    OPEN_STATES,
    STATES,
    Filters,
    Transaction,
    describe_transactions,
    fence,
    list_transactions,
)
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition

PLANNED = "nothing has been changed; add --execute to do it"
DEFAULT_MAX_TIMEOUT = "15m"
"""What `transaction.max.timeout.ms` is where nobody has changed it."""
NO_SUCH_ID = "there is no transactional id {}; pyk transaction list has those that are there"

partition_option = click.option(
    "-p", "--partition", "number", type=click.IntRange(0), help="Only this partition."
)
execute_option = click.option(
    "--execute", is_flag=True, help="Do it. Without this it is only shown."
)


@click.group()
def transaction() -> None:
    """Look into transactions, and end those that hang.

    \b
    A reader of committed records is stuck? Then:
      pyk transaction producers orders --open     who has something open there
      pyk transaction describe                    what is open, since when, and where
      pyk transaction find-hanging                what nobody will ever end
    """


@transaction.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only those in this state; may be given more than once.",
)
@click.option("--open", "is_open", is_flag=True, help="Only those that are open.")
@click.option(
    "--producer-id",
    "producer_ids",
    multiple=True,
    type=click.IntRange(0),
    help="Only that of this producer id; may be given more than once.",
)
@click.option(
    "--running-longer-than", "longer_than", metavar="1h30m", help="Only those open for longer."
)
@click.option(
    "-r",
    "--regex",
    "--transactional-id-pattern",
    "regex",
    help="Only those whose whole id matches: for the broker to judge, if it can.",
)
@format_option(*LISTED)
@with_cluster
def list_(
    cluster: Cluster,
    states: tuple[str, ...],
    is_open: bool,
    producer_ids: tuple[int, ...],
    longer_than: str | None,
    regex: str | None,
    format_: Format,
) -> None:
    """List transactional ids, and the state of the last transaction of each."""
    # By what brokers call running, those that are over or never began run, too.
    is_open = is_open or (longer_than is not None and not states)
    filters = Filters(
        states=(*states, *(OPEN_STATES if is_open else ())),
        producer_ids=producer_ids,
        longer_than_ms=None if longer_than is None else parse_duration(longer_than),
        pattern=regex,
    )
    try:
        found = list_transactions(cluster, filters)
    except KafkaError as refused:
        if refused.code is ErrorCode.INVALID_REGULAR_EXPRESSION:
            raise click.UsageError(str(refused)) from refused
        raise
    show([listed(each) for each in found], LISTED, format_)


@transaction.command()
@click.argument("names", nargs=-1, metavar="[ID]...", shell_complete=complete_transactions)
@format_option(*DESCRIBED, partitions=PLACE)
@with_cluster
def describe(cluster: Cluster, names: tuple[str, ...], format_: Format) -> None:
    """Describe transactions by their ids, or all that are open."""
    wanted: Sequence[str] = names
    if not names:
        running = list_transactions(cluster, Filters(states=OPEN_STATES))
        wanted = [each.transactional_id for each in running]
    found = transactions(cluster, wanted, required=names)
    now_ms = int(time.time() * 1000)
    documents = [described(each, now_ms) for each in found]
    show_sections(documents, DESCRIBED, {"partitions": PLACE}, format_)


def transactions(
    cluster: Cluster, names: Sequence[str], required: Sequence[str]
) -> list[Transaction]:
    """Raise KafkaError for the first that cannot be described, unless it was only listed and has
    gone meanwhile."""
    found = []
    for name, each in describe_transactions(cluster, names).items():
        if isinstance(each, Transaction):
            found.append(each)
        elif each.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise KafkaError(each.code, f"transactional id {name}: {each}")
        elif name in required:
            raise KafkaError(each.code, NO_SUCH_ID.format(name))
    return found


@transaction.command()
@click.argument("topic", shell_complete=complete_topics)
@partition_option
@click.option("--open", "is_open", is_flag=True, help="Only those with an open transaction.")
@click.option(
    "--broker", type=click.IntRange(0), help="As this replica knows them, not the leader."
)
@format_option(*PRODUCERS)
@with_cluster
def producers(
    cluster: Cluster,
    topic: str,
    number: int | None,
    is_open: bool,
    broker: int | None,
    format_: Format,
) -> None:
    """Show who writes to the partitions of a topic, and where open transactions begin."""
    found = producers_of(cluster, partitions_of(cluster, topic, number), broker)
    rows = [
        described_producer(each) for each in found if each.start_offset is not None or not is_open
    ]
    show(rows, PRODUCERS, format_)


@transaction.command("find-hanging")
@click.option("-t", "--topic", shell_complete=complete_topics, help="Only in this topic.")
@partition_option
@click.option("--broker", type=click.IntRange(0), help="Only where this broker has a replica.")
@click.option(
    "--max-transaction-timeout",
    "timeout",
    default=DEFAULT_MAX_TIMEOUT,
    show_default=True,
    metavar="15m",
    help="The brokers' transaction.max.timeout.ms: what was written to since is left alone.",
)
@format_option(*HANGING)
@with_cluster
def find_hanging_(
    cluster: Cluster,
    topic: str | None,
    number: int | None,
    broker: int | None,
    timeout: str,
    format_: Format,
) -> None:
    """Find transactions that nobody will ever end.

    They are open in a partition and nothing was written to them for longer than any transaction may
    take, and their coordinator knows nothing of them. Readers of committed records come no further.
    Without --topic or --broker all topics are searched, those of the brokers too.
    """
    if number is not None and topic is None:
        raise click.UsageError("a partition is one of a topic: say --topic, too")
    before_ms = int(time.time() * 1000) - parse_duration(timeout)
    partitions = searched(cluster, topic, number, broker)
    candidates = [
        each
        for each in producers_of(cluster, partitions, broker)
        if each.start_offset is not None and each.last_timestamp <= before_ms
    ]
    found = find_hanging(cluster, candidates)
    now_ms = int(time.time() * 1000)
    show([described_hanging(each, now_ms) for each in found], HANGING, format_)
    if found:
        first = found[0]
        where = f"{first.partition.topic} -p {first.partition.partition} -o {first.start_offset}"
        click.echo(f"pyk: to end the first of them: pyk transaction abort {where}", err=True)


def searched(
    cluster: Cluster, topic: str | None, number: int | None, broker: int | None
) -> list[TopicPartition]:
    """Where to look. Raise KafkaError."""
    if topic is not None:
        found = partitions_of(cluster, topic, number)
    else:
        names = sorted(each.name or "" for each in cluster.metadata().topics)
        found = [each for name in names for each in cluster.topic(name).all_partitions]
    if broker is None:
        return found
    cluster.broker(broker)
    return [
        each
        for each in found
        if broker in cluster.topic(each.topic).partitions[each.partition].replica_nodes
    ]


@transaction.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("-p", "--partition", "number", type=click.IntRange(0), required=True)
@click.option(
    "-o",
    "--start-offset",
    type=click.IntRange(0),
    required=True,
    help="Where the transaction begins, as find-hanging and producers --open have it.",
)
@click.option("--force", is_flag=True, help="Even if its coordinator knows of it, and will end it.")
@execute_option
@format_option(*ABORTED)
@with_cluster
def abort(
    cluster: Cluster,
    topic: str,
    number: int,
    start_offset: int,
    force: bool,
    execute: bool,
    format_: Format,
) -> None:
    """Abort a transaction that hangs, in one partition.

    Without --execute it only shows what it would do. A transaction that its coordinator knows of is
    not one that hangs: to abort it in one of its partitions alone would tear it.
    """
    (partition,) = partitions_of(cluster, topic, number)
    opened = opened_at(cluster, partition, start_offset)
    known = known_to_coordinators(cluster, [opened])
    owner = known.get((partition, opened.producer_id))
    status, message = "PLANNED", None
    if owner is not None and not force:
        status = "NOT_HANGING"
        name = owner.transactional_id
        message = f"{name} will end it; pyk transaction terminate {name} does so now"
    elif execute:
        status, message = outcome_of_abort(cluster, opened)
    row: Row = {**described_producer(opened), "status": status, "message": message}
    show_report([row], ABORTED, format_)
    if status == "PLANNED":
        click.echo(f"pyk: {PLANNED}", err=True)
    elif status != "OK":
        raise click.exceptions.Exit(REFUSED)


def opened_at(cluster: Cluster, partition: TopicPartition, start_offset: int) -> Producer:
    """Raise KafkaError, ClickException if there is none."""
    for each in producers_of(cluster, [partition]):
        if each.start_offset == start_offset:
            return each
    topic, number = partition
    raise click.ClickException(
        f"no open transaction begins at offset {start_offset} of {topic}:{number}; "
        f"pyk transaction producers {topic} -p {number} --open has those that are open"
    )


def outcome_of_abort(cluster: Cluster, opened: Producer) -> tuple[str, str | None]:
    try:
        write_abort(cluster, opened)
    except KafkaError as refused:
        return refused.code.name, refused.message
    return "OK", None


@transaction.command()
@click.argument(
    "names", nargs=-1, required=True, metavar="ID...", shell_complete=complete_transactions
)
@execute_option
@format_option(*TERMINATED)
@with_cluster
def terminate(cluster: Cluster, names: tuple[str, ...], execute: bool, format_: Format) -> None:
    """Abort what is open under transactional ids, in all partitions, and fence their producers.

    Without --execute it only shows what it would do. A producer that is fenced fails at its next
    step, and has to begin anew.
    """
    found = transactions(cluster, names, required=names)
    rows = [terminated(cluster, each) if execute else planned(each) for each in found]
    show_report(rows, TERMINATED, format_)
    if not execute:
        click.echo(f"pyk: {PLANNED}", err=True)
    elif any(row["status"] != "OK" for row in rows):
        raise click.exceptions.Exit(REFUSED)


def planned(found: Transaction) -> Row:
    said = None if found.is_open else "nothing is open: only its producer is fenced"
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "status": "PLANNED",
        "message": said,
    }


def terminated(cluster: Cluster, found: Transaction) -> Row:
    try:
        fence(cluster, found.transactional_id, found.timeout_ms)
    except KafkaError as refused:
        return {**planned(found), "status": refused.code.name, "message": refused.message}
    return {**planned(found), "status": "OK", "message": None}


def partitions_of(cluster: Cluster, topic: str, number: int | None) -> list[TopicPartition]:
    """Raise KafkaError for what is not there."""
    found = cluster.topic(topic)
    if number is None:
        return found.all_partitions
    cluster.leader(TopicPartition(topic, number))
    return [TopicPartition(topic, number)]


def producers_of(
    cluster: Cluster, partitions: Sequence[TopicPartition], broker: int | None = None
) -> list[Producer]:
    """Raise KafkaError for the first partition that cannot be described."""
    found = []
    for (topic, number), each in describe_producers(cluster, partitions, broker_id=broker).items():
        if isinstance(each, KafkaError):
            raise KafkaError(each.code, f"partition {number} of {topic}: {each}")
        found += each
    return found
