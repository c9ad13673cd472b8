"""Apache Kafka's jars, brought once from Maven Central into a cache, and the means to run them.

The cache is `.cache` at the root of the repository, or wherever PYK_CACHE says. What is in it is
whole or absent: it is made in a temporary directory beside its place, under a lock of its own, and
renamed.
"""

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

KAFKA_VERSION = "4.3.1"
JAVA_VERSION_MIN = 17
DOWNLOAD_TIMEOUT = 900.0
TRAINING_TIMEOUT = 300.0
QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable")
"""JVM options for programs that live shortly. The last is about classes that cannot be shared."""

ARCHIVE = "classes.jsa"

_HERE = Path(__file__).parent
TRAINING = _HERE / "Training.java"


@dataclass(frozen=True, slots=True)
class Library:
    """Jars that are brought together, into a directory of the cache that has this name."""

    name: str
    pom: str
    properties: tuple[tuple[str, str], ...]
    """Of the pom: which Kafka it is to bring."""


SERVER = Library(f"kafka-{KAFKA_VERSION}", "pom.xml", (("kafka.version", KAFKA_VERSION),))
"""The broker that judges, its tools, and the client of its version."""


def client(version: str, artifact: str = "kafka-clients") -> Library:
    """A client of Kafka's, of any version, with nothing of the broker."""
    properties = (("kafka.version", version), ("kafka.artifact", artifact))
    return Library(f"{artifact}-{version}", "clients.xml", properties)


class Missing(Exception):
    """A program that the oracle needs is not on this machine. The message says what to install."""


class JavaFailed(Exception):
    """A Java program ended with an error. The message carries the end of what it printed."""


def cache(of: Library = SERVER) -> Path:
    """The directory of everything made from these jars."""
    root = os.environ.get("PYK_CACHE") or _HERE.parents[1] / ".cache"
    return Path(root).resolve() / of.name


def library(of: Library = SERVER) -> Path:
    """The directory of the jars, downloaded if need be. Raises `Missing`."""
    java()
    return made_once(cache(of) / "lib", functools.partial(_download, of))


def classpath(of: Library = SERVER) -> str:
    """All the jars, as Java wants them after `-cp`. Raises `Missing`."""
    return f"{library(of)}{os.sep}*"


@functools.cache
def java() -> str:
    """The path of a `java` that is new enough. Raises `Missing`."""
    path = _program("java", f"a JDK of Java {JAVA_VERSION_MIN} or later")
    banner = subprocess.run([path, "-version"], capture_output=True, text=True, check=True).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', banner)
    if found is None or int(found[1]) < JAVA_VERSION_MIN:
        raise Missing(
            f"Apache Kafka {KAFKA_VERSION} needs Java {JAVA_VERSION_MIN} or later; `java` says "
            f"{banner.splitlines()[0]}. Install a newer JDK and put it first in PATH."
        )
    return path


def java_command(
    *arguments: str,
    jvm: tuple[str, ...] = (),
    classes: Path | None = None,
    of: Library = SERVER,
    is_measured: bool = False,
) -> list[str]:
    """The command line that runs a main class, with its arguments, on Kafka's jars.

    It starts quickly, at the cost of what runs for long. What is measured is run as Java does it.
    `classes` is a directory that goes behind the jars: see `compiled`.
    """
    if not is_measured:
        jvm = (*QUICK, *_class_data(of), *jvm)
    path = classpath(of) if classes is None else f"{classpath(of)}{os.pathsep}{classes}"
    return [java(), *jvm, "-cp", path, *arguments]


def run_java(main_class: str, *arguments: str, timeout: float = 300.0) -> str:
    """What a main class of Kafka's prints. Raises `JavaFailed`, `Missing`."""
    return _run(java_command(main_class, *arguments), timeout=timeout)


def _class_data(of: Library) -> tuple[str, ...]:
    """What lets Java take the classes of a broker and its tools from memory, as they were when one
    was run before, which halves their start. Java does without where it does not fit."""
    if of is not SERVER:
        return ()
    made = made_once(cache(of) / "class-data", functools.partial(_train, of))
    return (f"-XX:SharedArchiveFile={made / ARCHIVE}",)


def _train(of: Library, directory: Path) -> None:
    # Compiled as it is run: while classes are written down, none may come from a directory.
    archive = f"-XX:ArchiveClassesAtExit={directory / ARCHIVE}"
    with tempfile.TemporaryDirectory(prefix="pyk-kafka-") as home:
        command = [java(), *QUICK, archive, "-cp", classpath(of), str(TRAINING), home]
        _run(command, timeout=TRAINING_TIMEOUT)


def compiled(source: Path, of: Library = SERVER) -> Path:
    """The directory of the classes of a Java file of ours, compiled once. Raises `Missing`."""
    fingerprint = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    jars = classpath(of)

    def compile_to(directory: Path) -> None:
        javac = _program("javac", f"a JDK of Java {JAVA_VERSION_MIN} or later, not only a JRE")
        release = ("--release", str(JAVA_VERSION_MIN))
        _run([javac, *release, "-cp", jars, "-d", str(directory), str(source)], timeout=120)

    return made_once(cache(of) / f"{source.stem}-{fingerprint}", compile_to)


def _download(of: Library, directory: Path) -> None:
    mvn = _program("mvn", "Apache Maven")
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={directory}")
    pom = ("-f", str(_HERE / of.pom), *(f"-D{name}={value}" for name, value in of.properties))
    _run([mvn, "--quiet", "--batch-mode", *pom, *goal], timeout=DOWNLOAD_TIMEOUT)


def made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """The directory, made by a function that is given an empty one. It may have others made."""
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():  # Another process may have made it while this one waited.
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".making-") as scratch:
                made = Path(scratch) / target.name
                made.mkdir()
                make(made)
                made.rename(target)
    return target


def _program(name: str, what: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise Missing(f"`{name}` is not in PATH. Install {what}.")
    return path


def _run(command: list[str], timeout: float) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
        raise JavaFailed(f"{' '.join(command[:1])} ended with {done.returncode}:\n{tail}")
    return done.stdout
