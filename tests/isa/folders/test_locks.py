"""A lock is never taken through a link, costs no content, and ends with its process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright.isa.folders.locks import LockTaken, locked, locked_at_once


def test_says_who_has_it(tmp_path: Path) -> None:
    with locked_at_once(tmp_path / "lock"), pytest.raises(LockTaken) as taken, locked_at_once(tmp_path / "lock"):
        pass
    assert taken.value.holder == str(os.getpid())


def test_is_free_again_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        with locked_at_once(tmp_path / "lock"):
            pass


@pytest.mark.parametrize("take", [locked, locked_at_once])
def test_a_link_is_refused_and_its_target_stays(tmp_path: Path, take: object) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "lock").symlink_to("precious")
    with pytest.raises(OSError), take(tmp_path / "lock"):  # type: ignore[operator]  # noqa: B017
        pass
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_file_of_the_users_at_its_path_keeps_its_content(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("mine")
    with locked_at_once(tmp_path / "lock"):
        assert (tmp_path / "lock").read_text() == "mine"


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with (
        locked_at_once(tmp_path / "lock"),
        pytest.raises(LockTaken, match="unknown"),
        locked_at_once(tmp_path / "lock"),
    ):
        pass
