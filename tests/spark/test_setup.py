"""What is said to somebody who has not all that Spark needs. Spark itself is not needed here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyk.spark.setup import SparkMissing, SparkVersion, cache_directory, check_java

SPARK_3, SPARK_4 = SparkVersion("3.5.7"), SparkVersion("4.0.0")


def java_that_says(home: Path, banner: str) -> dict[str, str]:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(home)}


def test_the_connector_has_the_versions_of_spark_and_of_its_scala() -> None:
    assert SPARK_3.connector == "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7"
    assert SPARK_4.connector == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"


def test_a_java_that_is_new_enough_is_found_by_its_home(tmp_path: Path) -> None:
    environment = java_that_says(tmp_path, 'openjdk version "17.0.15" 2025-04-15')
    assert check_java(SPARK_4, environment) == str(tmp_path / "bin" / "java")
    assert check_java(SPARK_3, environment) == str(tmp_path / "bin" / "java")


@pytest.mark.parametrize(
    ("spark", "banner"),
    [
        (SPARK_4, 'openjdk version "1.8.0_402"'),
        (SPARK_4, 'openjdk version "11.0.22" 2024-01-16'),
        (SPARK_3, 'openjdk version "25" 2025-09-16'),
        (SPARK_4, "no Java at all"),
    ],
)
def test_another_java_is_named_with_what_to_install(
    tmp_path: Path, spark: SparkVersion, banner: str
) -> None:
    with pytest.raises(SparkMissing, match="needs Java 17") as told:
        check_java(spark, java_that_says(tmp_path, banner))
    assert banner in str(told.value)


def test_a_java_that_is_not_where_it_should_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(SparkMissing, match=f"JAVA_HOME is {tmp_path}"):
        check_java(SPARK_4, {"JAVA_HOME": str(tmp_path)})


def test_jars_are_kept_apart_from_those_of_other_programs(tmp_path: Path) -> None:
    assert cache_directory({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "pyk" / "spark"


def test_to_import_it_takes_no_spark_and_imports_none_of_the_broker() -> None:
    code = (
        "import sys, pyk.spark; "
        "assert not {'pyspark', 'trio', 'pyk.broker'} & set(sys.modules); "
        "print(sorted(pyk.spark.__all__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        done.stdout.strip() == "['SparkMissing', 'kafka_options', 'named', 'register', 'session']"
    )


def test_without_pyspark_a_session_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import pyk.spark\n"
        "try: pyk.spark.session()\n"
        "except pyk.spark.SparkMissing as told: print(told)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'pyk-broker[spark]'" in done.stdout
