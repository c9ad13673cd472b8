"""What Spark needs on a machine before it can talk to a broker: Java, and the Kafka connector."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

KAFKA_CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_{scala}:{spark}"
JAVA_MAX_OF_SPARK_3: Final = 17
"""Later versions of Java took away what Spark 3 needs of them."""


class SparkMissing(Exception):
    """Something that Spark needs is not there. The message says what to install."""


class SparkVersion(NamedTuple):
    text: str

    @property
    def major(self) -> int:
        return int(self.text.split(".")[0])

    @property
    def has_python_sources(self) -> bool:
        """Whether a data source may be written in Python."""
        return self.major >= 4

    @property
    def scala(self) -> str:
        """The version of Scala that PySpark's own jars are compiled with."""
        return "2.12" if self.major < 4 else "2.13"

    @property
    def connector(self) -> str:
        """The package that `spark.jars.packages` has to name, of Spark's own version."""
        return KAFKA_CONNECTOR.format(scala=self.scala, spark=self.text)

    @property
    def java_versions(self) -> range:
        return range(17, 10_000) if self.major >= 4 else range(8, JAVA_MAX_OF_SPARK_3 + 1)


def installed_spark() -> SparkVersion:
    """Raise SparkMissing."""
    try:
        import pyspark
    except ImportError:
        raise SparkMissing(
            "PySpark is not installed: pip install 'pyk-broker[spark]', or pip install pyspark"
        ) from None
    return SparkVersion(pyspark.__version__)


def check_java(spark: SparkVersion, environment: Mapping[str, str] = os.environ) -> str:
    """The Java that Spark is going to start. Raise SparkMissing if there is none that will do."""
    wanted = spark.java_versions
    what = f"Spark {spark.text} needs Java 17; on Debian: apt install openjdk-17-jdk-headless"
    home = environment.get("JAVA_HOME")
    path = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if path is None:
        where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "no java in PATH"
        raise SparkMissing(f"{where}. {what}")
    banner = subprocess.run([path, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', banner)
    if found is None or int(found[1]) not in wanted:
        said = banner.splitlines()[0] if banner else "nothing"
        raise SparkMissing(f"{path} says {said}. {what}, and set JAVA_HOME")
    return path


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where Spark keeps the jars that it downloads for pyk. It is no other program's: what Maven or
    another resolver has left half done confuses Spark's."""
    root = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "pyk" / "spark"
