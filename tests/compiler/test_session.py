"""What is found once is not made again, by the session whose scope it serves, as far as there is room."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from tilewright.compiler.errors import CompileError
from tilewright.compiler.session import MemoScope, MemoStage, SameObject, Session

STAGE = MemoStage[int](2)


def counting() -> tuple[list[int], Callable[[], int]]:
    made: list[int] = []

    def make() -> int:
        made.append(len(made))
        return made[-1]

    return made, make


def test_a_thing_is_made_once_for_a_key() -> None:
    session, (made, make) = Session(), counting()
    assert [session.memo(STAGE, key, make) for key in "aba"] == [0, 1, 0]
    assert made == [0, 1]


def test_nothing_is_an_answer_too() -> None:
    session, stage, made = Session(), MemoStage[None](2), list[int]()
    for _ in range(2):
        session.memo(stage, "a", lambda: made.append(0))
    assert made == [0]


def test_an_error_is_found_once_and_raised_each_time() -> None:
    session, calls = Session(), []

    def make() -> int:
        calls.append(0)
        raise CompileError("here", "something is wrong")

    stage = MemoStage[int](2, weight=lambda number: number + 1)  # of a number, so of no error
    for _ in range(2):
        with pytest.raises(CompileError, match="here: something is wrong"):
            session.memo(stage, "a", make)
    assert calls == [0]


def test_the_first_of_a_key_stays() -> None:
    session = Session()
    for value in (3, 5):
        session.keep(STAGE, "a", value)
    assert (session.known(STAGE, "a"), session.known(STAGE, "b")) == (3, None)


@pytest.mark.parametrize(("renewed", "left"), [(True, [None, None, 2]), (False, [0, 1, None])])
def test_a_full_stage_begins_anew_or_keeps_what_it_has(renewed: bool, left: list[int | None]) -> None:
    session, stage = Session(), MemoStage[int](2, renewed=renewed)
    for key in range(3):
        session.keep(stage, key, key)
    assert [session.known(stage, key) for key in range(3)] == left


def test_a_stage_that_began_anew_has_as_much_room_as_at_first() -> None:
    session = Session()
    for key in range(4):
        session.keep(STAGE, key, key)
    assert [session.known(STAGE, key) for key in range(4)] == [None, None, 2, 3]


def test_things_have_weights() -> None:
    session, stage = Session(), MemoStage[str](4, weight=len, renewed=False)
    for text in ("four", "one", ""):
        session.keep(stage, text, text)
    assert [session.known(stage, text) for text in ("four", "one", "")] == ["four", None, ""]


@pytest.mark.parametrize("scope", MemoScope)
def test_an_inner_session_holds_what_serves_no_more_than_its_scope(scope: MemoScope) -> None:
    outer = Session()
    inner = outer.inner(MemoScope.NETWORK).inner(MemoScope.PROGRAM)
    stage = MemoStage[int](2, scope)
    inner.keep(stage, "a", 1)
    assert inner.known(stage, "a") == 1
    assert outer.known(stage, "a") == (1 if scope is MemoScope.ALL else None)
    assert outer.inner(MemoScope.NETWORK).known(stage, "a") == (1 if scope is MemoScope.ALL else None)


def test_what_is_left_is_forgotten() -> None:
    outer = Session()
    for scope in (MemoScope.PROGRAM, MemoScope.ALL):
        stage = MemoStage[int](2, scope)
        with outer.inner(MemoScope.PROGRAM) as inner:
            inner.keep(stage, "a", 1)
        assert inner.known(stage, "a") == outer.known(stage, "a") == (1 if scope is MemoScope.ALL else None)


def test_a_session_that_was_left_has_all_its_room() -> None:
    session, stage = Session(), MemoStage[int](1, renewed=False)
    for key in range(2):
        with session:
            session.keep(stage, key, key)
            assert session.known(stage, key) == key


def test_stages_are_apart() -> None:
    session = Session()
    session.keep(STAGE, "a", 1)
    assert session.known(MemoStage[int](2), "a") is None


def test_the_same_object_is_not_an_equal_one() -> None:
    one, other = [1], [1]
    assert SameObject(one) == SameObject(one) != SameObject(other)
    assert len({SameObject(one), SameObject(one), SameObject(other)}) == 2


def test_what_is_sent_to_another_process_is_an_empty_session() -> None:
    """A stage is another one there, so that asking a copy for what was kept would tell nothing."""
    session = Session()
    session.keep(STAGE, "a", 1)
    assert pickle.dumps(session) == pickle.dumps(Session())
    assert isinstance(pickle.loads(pickle.dumps(session)), Session)
