"""A file is replaced whole, a link is followed, a pipe or a device stays what it is."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tilewright.isa.folders.whole_file import open_own, read_own, read_regular, write_whole


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_replaces_a_file_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "net.npu"
    path.write_bytes(b"old")
    path.chmod(0o600)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == ["net.npu"]


def test_a_reader_of_the_old_content_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "net.npu"
    path.write_bytes(b"old")
    with open(path, "rb") as reader:
        write_whole(path, b"new")
        assert reader.read() == b"old"


@pytest.mark.parametrize("target", ["real.npu", "../folder/real.npu", "second link"])
def test_follows_a_link_and_replaces_the_file_behind_it(tmp_path: Path, target: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "real.npu").write_bytes(b"old")
    (folder / "second link").symlink_to(folder / "real.npu")
    (folder / "link").symlink_to(target)
    with open(folder / "real.npu", "rb") as reader:
        write_whole(folder / "link", b"new")
        assert reader.read() == b"old"
    assert os.readlink(folder / "link") == target
    assert (folder / "real.npu").read_bytes() == b"new"
    assert names(folder) == ["link", "real.npu", "second link"]


def test_a_link_to_nothing_makes_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("new.npu")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "new.npu").read_bytes() == b"new"


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels of symbolic links") as raised:
        write_whole(tmp_path / "a", b"new")
    assert raised.value.filename == str(tmp_path / "a")
    assert names(tmp_path) == ["a", "b"]


def read_from(pipe: Path, size: int, came: list[bytes]) -> Thread:
    def read() -> None:
        with open(pipe, "rb") as reader:
            came.append(reader.read(size))

    thread = Thread(target=read)
    thread.start()
    return thread


@pytest.mark.parametrize("name", ["pipe", "link"])
def test_writes_into_a_pipe(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    came: list[bytes] = []
    reader = read_from(tmp_path / "pipe", -1, came)
    write_whole(tmp_path / name, b"through")
    reader.join()
    assert came == [b"through"]
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink()
    assert names(tmp_path) == ["link", "pipe"]


def test_says_when_the_reader_of_a_pipe_goes_away(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = read_from(tmp_path / "pipe", 1, [])
    with pytest.raises(OSError, match="whoever read from it stopped before the end") as raised:
        write_whole(tmp_path / "pipe", bytes(1 << 20))
    reader.join()
    assert raised.value.filename == str(tmp_path / "pipe")


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    """A node of the same kind as /dev/null, never the real one."""
    node = tmp_path / "null"
    try:
        os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        node.write_bytes(b"")
    except OSError as error:
        pytest.skip(f"no device can be made here: {error}")
    write_whole(node, b"nowhere")
    assert node.is_char_device()
    assert names(tmp_path) == ["null"]


def test_what_is_open_already_is_written_as_it_is(tmp_path: Path) -> None:
    """As /dev/stdout is where a shell sends it into a file: the file that is open must get it, not another one."""
    with open(tmp_path / "out", "w+b") as file:
        write_whole(f"/proc/self/fd/{file.fileno()}", b"into it")
        assert file.read() == b"into it"
    assert names(tmp_path) == ["out"]


def test_a_folder_is_an_error_and_stays(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as raised:
        write_whole(tmp_path / "folder", b"new")
    assert raised.value.filename == str(tmp_path / "folder")
    assert names(tmp_path) == ["folder"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interruption_leaves_the_old_content_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise error

    (tmp_path / "net.npu").write_bytes(b"old")
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(type(error)):
        write_whole(tmp_path / "net.npu", b"new")
    assert names(tmp_path) == ["net.npu"]
    assert (tmp_path / "net.npu").read_bytes() == b"old"


def test_a_name_of_any_length_that_the_system_takes(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_killed_writer_leaves_no_file_without_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the end of the writing, what is written has no name."""
    seen: list[list[str]] = []
    link = os.link

    def look(*arguments: Any, **more: Any) -> None:
        seen.append(names(tmp_path))
        link(*arguments, **more)

    monkeypatch.setattr(os, "link", look)
    write_whole(tmp_path / "net.npu", b"new")
    if not seen:
        pytest.skip("the file system has no files without names")
    assert seen == [[]] and names(tmp_path) == ["net.npu"]


def test_without_such_files_it_is_whole_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    write_whole(tmp_path / "net.npu", b"new")
    assert (tmp_path / "net.npu").read_bytes() == b"new" and names(tmp_path) == ["net.npu"]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device"])
def test_what_is_no_file_of_ours_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = Path("/dev/zero") if kind == "device" else tmp_path / kind
    (tmp_path / "precious").write_bytes(b"mine")
    match kind:
        case "link":
            path.symlink_to("precious")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
    with pytest.raises(OSError):  # noqa: B017
        read_own(path, 100)
    if kind != "device":
        with pytest.raises(OSError):  # noqa: B017
            os.close(open_own(path))
    if kind != "link":
        with pytest.raises(OSError):  # noqa: B017
            read_regular(path, 100)
    assert (tmp_path / "precious").read_bytes() == b"mine"


def test_a_file_that_is_larger_than_it_may_be_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(11))
    assert read_regular(tmp_path / "large", 11) == bytes(11)
    with pytest.raises(OSError, match="has more than 10 bytes"):
        read_regular(tmp_path / "large", 10)
