"""ApiVersions, DescribeCluster, DescribeLogDirs, UpdateFeatures, and APIs that nobody has."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from compat_tests.codec.test_connection_rules import exchanged, framed
from compat_tests.differential.comparison import Comparison, Listed, Make, comparing, versions
from compat_tests.differential.requests import a_batch, produce
from compat_tests.differential.sides import Side, Sides
from pyk.handlers.table import served
from pyk.wire.apis import ApiKey
from pyk.wire.messages.api_versions import ApiVersionsRequest
from pyk.wire.messages.describe_cluster import DescribeClusterRequest
from pyk.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from pyk.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

GROUP, TRANSACTION, METADATA = "group.version", "transaction.version", "metadata.version"
UPDATE, CLUSTER, DIRECTORIES = (
    ApiKey.UPDATE_FEATURES,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_LOG_DIRS,
)

API_VERSIONS_DIFFERENCES = {
    "APIs that are not served": Listed(
        "", r"^\.api_keys.*pyk 'absent'$", "ApiVersions says what there is."
    ),
    "features of what is not served": Listed(
        "",
        r"_features\[(kraft|streams|eligible\.leader\.replicas)\.version\].*pyk 'absent'$",
        "pyk has neither streams groups, nor KRaft, nor eligible leader replicas.",
    ),
}


@comparing("API_VERSIONS", API_VERSIONS_DIFFERENCES, ["supported_features", "finalized_features"])
def test_versions_are_told_alike(compare: Comparison) -> None:
    def ask(name: str = "raw", version: str = "1") -> Make:
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        return lambda version, side: request

    compare.add(ApiKey.API_VERSIONS, "a client", ask())
    for text in ("", " ", "-", "a-", ".a", "a.b-c", "a b", "ü", "a" * 300):
        compare.add(ApiKey.API_VERSIONS, f"a name {text[:5]!r}", ask(text), since=3)
        compare.add(ApiKey.API_VERSIONS, f"a version {text[:5]!r}", ask("raw", text), since=3)


@comparing("versions that nobody serves")
def test_versions_beyond_those_that_are_served_end_the_connection(compare: Comparison) -> None:
    for key in served().keys() - {ApiKey.API_VERSIONS}:
        answered = versions(key)
        for version in (-1, answered.start - 1, answered.stop, 32_767):
            frame = framed(struct.pack(">hhih", key, version, 1, -1) + bytes(20))
            kafka, pyk = (exchanged(address_of(side), frame) for side in compare.sides)
            compare.judge(f"{key.name} v{version}", kafka, pyk)


def address_of(side: Side) -> tuple[str, int]:
    host, _, port = side.address.rpartition(":")
    return host, int(port)


@comparing("DESCRIBE_CLUSTER")
def test_clusters_are_described_alike(compare: Comparison) -> None:
    def ask(operations: bool = False, **more: Any) -> Make:
        request = DescribeClusterRequest(include_cluster_authorized_operations=operations, **more)
        return lambda version, side: request

    compare.add(CLUSTER, "plain", ask())
    compare.add(CLUSTER, "with operations", ask(True))
    for kind in (-128, -1, 0, 1, 2, 3, 127):
        compare.add(CLUSTER, f"endpoints of type {kind}", ask(endpoint_type=kind), since=1)
        asked = ask(True, endpoint_type=kind)
        compare.add(CLUSTER, f"endpoints of type {kind}, operations", asked, since=1)
    compare.add(CLUSTER, "with fenced brokers", ask(include_fenced_brokers=True), since=2)


@comparing("DESCRIBE_LOG_DIRS", unordered=["topics", "partitions"])
def test_directories_are_described_alike(compare: Comparison, sides: Sides) -> None:
    sides.create("stored", partitions=2)
    sides.create("stored-2")

    def ask(*topics: tuple[str, Sequence[int]]) -> Make:
        asked = [DescribableLogDirTopic(topic=name, partitions=list(p)) for name, p in topics]
        return lambda version, side: DescribeLogDirsRequest(topics=asked)

    compare.ask(ApiKey.PRODUCE, 12, "something", produce(a_batch(3, 100), topic="stored"))
    compare.add(DIRECTORIES, "none", ask())
    compare.add(DIRECTORIES, "one", ask(("stored", [0])))
    compare.add(DIRECTORIES, "three", ask(("stored", [1, 0]), ("stored-2", [0])))
    compare.add(DIRECTORIES, "no partitions", ask(("stored", [])))
    compare.add(DIRECTORIES, "twice the same", ask(("stored", [0, 0]), ("stored", [0])))
    compare.add(DIRECTORIES, "missing", ask(("missing", [0])))
    compare.add(DIRECTORIES, "a missing partition", ask(("stored", [0, 7])))
    compare.add(DIRECTORIES, "a negative partition", ask(("stored", [-1])))
    compare.add(DIRECTORIES, "a bad name", ask(("a b", [0]), ("", [0])))


def update(*features: tuple[str, int, int], **more: Any) -> Make:
    def make(version: int, side: Side) -> UpdateFeaturesRequest:
        updates = [
            FeatureUpdateKey(
                feature=name, max_version_level=level, upgrade_type=kind if version >= 1 else 1
            )
            for name, level, kind in features
        ]
        return UpdateFeaturesRequest(feature_updates=updates, **more)

    return make


@comparing("UPDATE_FEATURES", unordered=["results"])
def test_features_are_updated_alike(compare: Comparison) -> None:
    compare.add(UPDATE, "none", update())
    compare.add(UPDATE, "the same", update((GROUP, 1, 1)))
    compare.add(UPDATE, "both the same", update((GROUP, 1, 1), (TRANSACTION, 2, 1)))
    compare.add(UPDATE, "unknown", update(("nonsense", 1, 1)))
    compare.add(UPDATE, "without a name", update(("", 1, 1)))
    compare.add(UPDATE, "twice", update((GROUP, 1, 1), (GROUP, 1, 1)))
    compare.add(UPDATE, "one good and one bad", update((GROUP, 1, 1), ("nonsense", 1, 1)))
    for level in (-1, 2, 32_767):
        compare.add(UPDATE, f"to {level}", update((GROUP, level, 1)))
    compare.add(UPDATE, "a downgrade that is not one", update((GROUP, 0, 1)))
    for level in (0, 1, 6, 7, 29, 30, 31):
        asked = update((METADATA, level, 1), validate_only=True)
        compare.add(UPDATE, f"metadata to {level}", asked, since=1)
        for kind in (2, 3):
            asked = update((METADATA, level, kind), validate_only=True)
            compare.add(UPDATE, f"metadata to {level} by {kind}", asked, since=1)
    for level, kind in ((0, 2), (0, 3), (1, 2), (1, 3), (2, 2), (0, 0), (0, 4), (0, -1), (1, 0)):
        asked = update((GROUP, level, kind), validate_only=True)
        compare.add(UPDATE, f"groups to {level} by {kind}", asked, since=1)
        asked = update((TRANSACTION, level, kind), validate_only=True)
        compare.add(UPDATE, f"transactions to {level} by {kind}", asked, since=1)
    for timeout_ms in (0, -1):
        asked = update((GROUP, 1, 1), timeout_ms=timeout_ms)
        compare.add(UPDATE, f"within {timeout_ms} ms", asked)
    for level, kind in ((0, 2), (0, 2), (1, 2), (1, 1)):
        compare.ask(UPDATE, 2, f"groups to {level} by {kind}, really", update((GROUP, level, kind)))
