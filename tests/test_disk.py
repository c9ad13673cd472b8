"""What the disk seam promises, kept by the real disk and by the simulated one."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from pyk.disk import Disk, RealDisk
from tests.simulated_disk import SimulatedDisk


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return RealDisk() if request.param == "real" else SimulatedDisk(tmp_path)


def test_opening_creates_an_empty_file(disk: Disk, tmp_path: Path) -> None:
    assert not disk.exists(tmp_path / "a")
    assert disk.open(tmp_path / "a").size == 0
    assert disk.exists(tmp_path / "a")
    assert disk.read(tmp_path / "a") == b""


def test_opening_again_keeps_what_is_there(disk: Disk, tmp_path: Path) -> None:
    disk.open(tmp_path / "a").append(b"one")
    file = disk.open(tmp_path / "a")
    assert file.size == 3
    file.append(b"two")
    assert disk.read(tmp_path / "a") == b"onetwo"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_appended_at_the_end(
    disk: Disk, tmp_path: Path, kind: Callable[[bytes], bytes | bytearray | memoryview]
) -> None:
    file = disk.open(tmp_path / "a")
    for data in (b"one", b"", b"two"):
        file.append(kind(data))
    assert file.size == disk.size(tmp_path / "a") == 6
    assert file.read(0, 6) == disk.read(tmp_path / "a") == b"onetwo"


def test_a_buffer_may_be_used_again_after_it_was_appended(disk: Disk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "a")
    buffer = bytearray(b"one")
    file.append(buffer)
    buffer[:] = b"two and longer"
    assert file.read(0, 100) == b"one"


def test_a_read_is_short_at_the_end_of_the_file(disk: Disk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "a")
    file.append(b"0123456789")
    assert file.read(2, 3) == b"234"
    assert file.read(7, 10) == b"789"
    assert file.read(10, 1) == b""
    assert file.read(1_000, 1) == b""
    assert file.read(3, 0) == b""


def test_a_read_sees_what_another_opening_of_the_file_appended(disk: Disk, tmp_path: Path) -> None:
    reader = disk.open(tmp_path / "a")
    disk.open(tmp_path / "a").append(b"one")
    assert reader.read(0, 10) == b"one"


def test_an_append_goes_to_where_the_file_was_truncated(disk: Disk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "a")
    file.append(b"0123456789")
    file.truncate(4)
    assert file.size == disk.size(tmp_path / "a") == 4
    file.append(b"x")
    assert disk.read(tmp_path / "a") == b"0123x"


def test_truncating_beyond_the_end_fills_with_zeros(disk: Disk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "a")
    file.append(b"1")
    file.truncate(4)
    assert file.size == 4
    assert file.read(0, 10) == b"1\0\0\0"


def test_syncing_changes_nothing_that_can_be_seen(disk: Disk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "a")
    file.append(b"one")
    file.sync()
    file.sync()
    disk.sync_directory(tmp_path)
    assert disk.read(tmp_path / "a") == b"one"


def test_replacing_creates_the_file_or_changes_all_of_it(disk: Disk, tmp_path: Path) -> None:
    disk.replace(tmp_path / "a", b"long content")
    assert disk.read(tmp_path / "a") == b"long content"
    disk.replace(tmp_path / "a", b"short")
    assert disk.read(tmp_path / "a") == b"short"
    assert disk.names(tmp_path) == ["a"]


def test_replacing_is_not_disturbed_by_what_a_crash_in_it_left(disk: Disk, tmp_path: Path) -> None:
    disk.open(tmp_path / "a.tmp").append(b"half of something long")
    disk.replace(tmp_path / "a", b"short")
    assert disk.read(tmp_path / "a") == b"short"
    assert disk.names(tmp_path) == ["a"]


def test_replacing_leaves_the_old_content_to_whoever_has_it_open(
    disk: Disk, tmp_path: Path
) -> None:
    disk.replace(tmp_path / "a", b"old")
    file = disk.open(tmp_path / "a")
    disk.replace(tmp_path / "a", b"new")
    assert file.read(0, 10) == b"old"


def test_renaming_takes_the_place_of_an_existing_file(disk: Disk, tmp_path: Path) -> None:
    disk.replace(tmp_path / "a", b"one")
    disk.replace(tmp_path / "b", b"two")
    file = disk.open(tmp_path / "a")
    disk.rename(tmp_path / "a", tmp_path / "b")
    file.append(b"more")
    assert disk.names(tmp_path) == ["b"]
    assert disk.read(tmp_path / "b") == b"onemore"


def test_renaming_to_the_same_name_does_nothing(disk: Disk, tmp_path: Path) -> None:
    disk.replace(tmp_path / "a", b"one")
    disk.rename(tmp_path / "a", tmp_path / "a")
    assert disk.read(tmp_path / "a") == b"one"


def test_renaming_a_directory_takes_along_what_is_in_it(disk: Disk, tmp_path: Path) -> None:
    disk.make_directory(tmp_path / "t-0")
    file = disk.open(tmp_path / "t-0" / "a")
    disk.rename(tmp_path / "t-0", tmp_path / "t-0.delete")
    file.append(b"one")
    assert disk.names(tmp_path) == ["t-0.delete"]
    assert disk.read(tmp_path / "t-0.delete" / "a") == b"one"


def test_renaming_moves_a_file_to_another_directory(disk: Disk, tmp_path: Path) -> None:
    disk.make_directory(tmp_path / "t-0")
    disk.replace(tmp_path / "a", b"one")
    disk.rename(tmp_path / "a", tmp_path / "t-0" / "b")
    assert disk.names(tmp_path) == ["t-0"]
    assert disk.read(tmp_path / "t-0" / "b") == b"one"


def test_a_directory_takes_the_place_of_an_empty_one_only(disk: Disk, tmp_path: Path) -> None:
    for name in ("full", "empty"):
        disk.make_directory(tmp_path / name)
    disk.replace(tmp_path / "full" / "a", b"one")
    disk.replace(tmp_path / "file", b"two")
    with pytest.raises(OSError, match=os.strerror(errno.ENOTEMPTY)):
        disk.rename(tmp_path / "empty", tmp_path / "full")
    with pytest.raises(NotADirectoryError):
        disk.rename(tmp_path / "full", tmp_path / "file")
    with pytest.raises(IsADirectoryError):
        disk.rename(tmp_path / "file", tmp_path / "empty")
    disk.rename(tmp_path / "full", tmp_path / "empty")
    assert disk.names(tmp_path) == ["empty", "file"]
    assert disk.names(tmp_path / "empty") == ["a"]


def test_a_removed_file_stays_readable_to_whoever_has_it_open(disk: Disk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "a")
    file.append(b"one")
    disk.remove(tmp_path / "a")
    assert not disk.exists(tmp_path / "a")
    assert file.read(0, 3) == b"one"
    file.append(b"two")
    assert file.read(0, 6) == b"onetwo"
    assert disk.open(tmp_path / "a").size == 0, "a new file of the same name is another file"


def test_names_are_sorted(disk: Disk, tmp_path: Path) -> None:
    for name in ("b", "c", "a", "B", "10", "9"):
        disk.open(tmp_path / name)
    disk.make_directory(tmp_path / "aa")
    assert disk.names(tmp_path) == ["10", "9", "B", "a", "aa", "b", "c"]
    assert disk.names(tmp_path / "aa") == []


def test_making_a_directory_makes_its_parents_and_may_be_repeated(
    disk: Disk, tmp_path: Path
) -> None:
    for _ in range(2):
        disk.make_directory(tmp_path / "x" / "y" / "z")
        disk.make_directory(tmp_path)
    assert disk.names(tmp_path / "x" / "y") == ["z"]
    assert disk.exists(tmp_path / "x" / "y" / "z")


def test_only_an_empty_directory_is_removed(disk: Disk, tmp_path: Path) -> None:
    disk.make_directory(tmp_path / "x")
    disk.open(tmp_path / "x" / "a")
    with pytest.raises(OSError, match=os.strerror(errno.ENOTEMPTY)):
        disk.remove_directory(tmp_path / "x")
    disk.remove(tmp_path / "x" / "a")
    disk.remove_directory(tmp_path / "x")
    assert disk.names(tmp_path) == []


Operation: TypeAlias = Callable[[Disk, Path], object]

ON_A_PATH: dict[str, Operation] = {
    "read": lambda disk, path: disk.read(path),
    "size": lambda disk, path: disk.size(path),
    "names": lambda disk, path: disk.names(path),
    "remove": lambda disk, path: disk.remove(path),
    "remove_directory": lambda disk, path: disk.remove_directory(path),
    "sync_directory": lambda disk, path: disk.sync_directory(path),
    "rename": lambda disk, path: disk.rename(path, path.with_name("other")),
    "open_below": lambda disk, path: disk.open(path / "a"),
    "replace_below": lambda disk, path: disk.replace(path / "a", b""),
    "read_below": lambda disk, path: disk.read(path / "a"),
}


@pytest.mark.parametrize("name", ON_A_PATH)
def test_what_is_not_there_is_not_found(disk: Disk, tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError):
        ON_A_PATH[name](disk, tmp_path / "missing")
    assert not disk.exists(tmp_path / "missing")


@pytest.mark.parametrize(
    "name",
    ["names", "remove_directory", "sync_directory", "open_below", "replace_below", "read_below"],
)
def test_a_file_is_not_a_directory(disk: Disk, tmp_path: Path, name: str) -> None:
    disk.replace(tmp_path / "file", b"one")
    with pytest.raises(NotADirectoryError):
        ON_A_PATH[name](disk, tmp_path / "file")
    assert not disk.exists(tmp_path / "file" / "a")
    with pytest.raises(FileExistsError):
        disk.make_directory(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        disk.make_directory(tmp_path / "file" / "x")


def test_a_directory_is_not_a_file(disk: Disk, tmp_path: Path) -> None:
    disk.make_directory(tmp_path / "x")
    operations: list[Operation] = [
        lambda disk, path: disk.open(path),
        lambda disk, path: disk.read(path),
        lambda disk, path: disk.remove(path),
        lambda disk, path: disk.replace(path, b""),
    ]
    for operation in operations:
        with pytest.raises(IsADirectoryError):
            operation(disk, tmp_path / "x")


def test_a_real_file_closes_its_descriptor_when_it_is_dropped(tmp_path: Path) -> None:
    file = RealDisk().open(tmp_path / "a")
    descriptor = file.fileno()
    os.fstat(descriptor)
    del file
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(descriptor)


def test_a_real_append_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    # A limit on the size of files is a full disk that needs no root: four bytes still fit.
    script = """if True:
        import resource, sys
        from pathlib import Path
        from pyk.disk import RealDisk

        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        file = RealDisk().open(Path(sys.argv[1]))
        file.append(b"sixsix")
        try:
            file.append(b"more than fits")
        except OSError as failure:
            print(failure.errno, file.size)
        file.append(b"four")
    """
    run = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "a"], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == [str(errno.EFBIG), "6"]
    assert (tmp_path / "a").read_bytes() == b"sixsixfour"
