"""Which messages a conversation goes on from, after any number of rollbacks."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.store.branch import Rollback, SessionBranch, edits_aside, line_of, steps_aside


@dataclass
class Model:
    """A thread as plainly as it can be said: the line is a list of ``seq``."""

    line: list[int] = field(default_factory=list)
    last: int = 0
    rollbacks: list[Rollback] = field(default_factory=list)

    def append(self) -> None:
        self.last += 1
        self.line.append(self.last)

    def go_back(self, kept: int) -> None:
        self.line = self.line[:kept]
        kept_seq = self.line[-1] if self.line else 0
        self.rollbacks.append(Rollback(len(self.rollbacks) + 1, kept_seq, self.last, 0, 0))


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=40))
def test_the_line_is_what_is_left_after_each_return(moves: list[float | None]) -> None:
    model = Model()
    for move in moves:
        if move is None:
            model.append()
        else:
            model.go_back(int(move * len(model.line)))
    line = line_of(model.rollbacks)
    assert [seq for seq in range(1, model.last + 1) if line.place(seq) is not None] == model.line
    for place, seq in enumerate(model.line, start=1):
        assert (line.place(seq), line.seq(place)) == (place, seq)
    assert line.seq(len(model.line) + 1) == model.last + 1, "no number is given out twice"


def test_without_a_rollback_places_are_the_logs_own_numbers() -> None:
    assert [SessionBranch().place(seq) for seq in (0, 1, 7)] == [0, 1, 7]
    assert SessionBranch().seq(7) == 7


def test_what_knew_more_than_what_stayed_is_set_aside() -> None:
    made = [Rollback(1, kept_seq=3, last_seq=6, edits=2, steps=3), Rollback(2, 1, 9, edits=3, steps=4)]
    edits = [(1, 3), (2, 4), (3, 4), (4, 4)]
    assert edits_aside(made[:1], edits) == {2}, "the third was made after the return"
    assert edits_aside(made, edits) == {1, 2, 3}
    steps = [(1, 1), (2, 3), (3, 5), (4, 3), (5, 1)]
    assert steps_aside(made[:1], steps) == {2, 3}
    assert steps_aside(made, steps) == {1, 2, 3, 4}
