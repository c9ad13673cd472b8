"""DescribeLogDirs: a broker's directories, and the partitions and bytes in them."""

from __future__ import annotations

from pyk.wire.fields import array, boolean, int16, int32, int64, string
from pyk.wire.message import message, struct


@struct
class DescribableLogDirTopic:
    topic: str = string()
    partitions: list[int] = array(int32)


@message(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


@struct
class DescribeLogDirsPartition:
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@struct
class DescribeLogDirsTopic:
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@struct
class DescribeLogDirsResult:
    error_code: int = int16(default=0)
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(versions="4+", default=-1, ignorable=True)
    usable_bytes: int = int64(versions="4+", default=-1, ignorable=True)
    is_cordoned: bool = boolean(versions="5+", default=False, ignorable=True)


@message(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(versions="3+", default=0, ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
