"""`pyk cluster`: who is in it, and what is on its disks."""

from __future__ import annotations

import click

from pyk.cli.options import with_cluster
from pyk.cli.output import Field, Format, Row, columns, format_option, pairs, show, show_document
from pyk.client.brokers import describe_cluster, describe_log_dirs
from pyk.client.cluster import Cluster
from pyk.errors import ErrorCode

SUMMARY = (
    Field("cluster_id", "the id that all its members share"),
    Field("controller", "the broker to send changes to"),
)
BROKERS = (
    Field("id", "its number"),
    Field("host", "the name it wants to be reached by"),
    Field("port", "and the port"),
    Field("rack", "where it stands"),
    Field("controller", "whether changes go to it"),
)
FEATURES = (
    Field("feature", "its name"),
    Field("level", "the version that the cluster works by"),
    Field("min_supported", "the lowest version that the broker asked has"),
    Field("max_supported", "the highest version that it has"),
)
LOG_DIRS = (
    Field("broker", "its number"),
    Field("directory", "the path on its disk"),
    Field("partitions", "how many it has there"),
    Field("size", "their bytes"),
    Field("total", "bytes of the disk", is_wide=True),
    Field("usable", "bytes of it that are free", is_wide=True),
    Field("status", "OK, or the error's name"),
)
LOG_PARTITIONS = (
    Field("broker", "its number"),
    Field("directory", "the path on its disk"),
    Field("topic", "its name"),
    Field("partition", "its number"),
    Field("size", "its bytes"),
    Field("lag", "how far it is behind", is_wide=True),
)


@click.group()
def cluster() -> None:
    """Describe the cluster and its log directories."""


@cluster.command()
@format_option(*SUMMARY, brokers=BROKERS, features=FEATURES)
@with_cluster
def describe(cluster: Cluster, format_: Format) -> None:
    """Show brokers, controller and features."""
    found = describe_cluster(cluster)
    versions = cluster.any_broker().api_versions
    supported = {each.name: each for each in versions.supported_features}
    brokers: list[Row] = [
        {
            "id": each.broker_id,
            "host": each.host,
            "port": each.port,
            "rack": each.rack,
            "controller": each.broker_id == found.controller_id,
        }
        for each in sorted(found.brokers, key=lambda each: each.broker_id)
    ]
    levels = {each.name: each.max_version_level for each in versions.finalized_features}
    features: list[Row] = [
        {
            "feature": name,
            "level": levels.get(name, 0),
            "min_supported": each.min_version,
            "max_supported": each.max_version,
        }
        for name, each in sorted(supported.items())
    ]
    summary: Row = {"cluster_id": found.cluster_id, "controller": found.controller_id}
    if format_ in ("json", "yaml"):
        show_document({**summary, "brokers": brokers, "features": features}, format_)
        return
    is_wide = format_ == "wide"
    for line in pairs(summary, SUMMARY, is_wide=is_wide):
        click.echo(line)
    for rows, fields in ((brokers, BROKERS), (features, FEATURES)):
        click.echo()
        for line in columns(rows, fields, is_wide=is_wide):
            click.echo(line)


@cluster.command()
@click.option("--broker", "ids", multiple=True, type=int, help="Only of this broker.")
@click.option("-t", "--topic", "topics", multiple=True, help="Only of this topic.")
@click.option("-p", "--partitions", is_flag=True, help="A line for each partition.")
@format_option(*LOG_DIRS, partitions=LOG_PARTITIONS)
@with_cluster
def logdirs(
    cluster: Cluster,
    ids: tuple[int, ...],
    topics: tuple[str, ...],
    partitions: bool,
    format_: Format,
) -> None:
    """Show the directories of brokers, and how much is in them."""
    wanted = None
    if topics:
        wanted = [each for name in topics for each in cluster.topic(name).all_partitions]
    known = sorted(broker.node_id for broker in cluster.metadata(()).brokers)
    directories: list[Row] = []
    members: list[Row] = []
    for broker_id in dict.fromkeys(ids) or known:
        for found in describe_log_dirs(cluster, broker_id, wanted):
            place: Row = {"broker": broker_id, "directory": found.log_dir}
            inside: list[Row] = [
                {
                    **place,
                    "topic": topic.name,
                    "partition": each.partition_index,
                    "size": each.partition_size,
                    "lag": each.offset_lag,
                }
                for topic in found.topics
                for each in topic.partitions
            ]
            members += inside
            directories.append(
                {
                    **place,
                    "partitions": len(inside),
                    "size": sum(int(str(row["size"])) for row in inside),
                    "total": found.total_bytes if found.total_bytes >= 0 else None,
                    "usable": found.usable_bytes if found.usable_bytes >= 0 else None,
                    "status": ErrorCode(found.error_code).name if found.error_code else "OK",
                }
            )
    if partitions:
        members.sort(key=lambda row: (row["broker"], row["topic"], row["partition"]))
        show(members, LOG_PARTITIONS, format_)
    else:
        show(directories, LOG_DIRS, format_)
