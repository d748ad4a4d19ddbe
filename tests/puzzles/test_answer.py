"""What is said of a result that is another one of the task."""

from zerosim.puzzles.answer import Answer
from zerosim.puzzles.pieces import numbered, owned, partial_sums, total


def test_it_says_which_piece_it_is_and_which_is_owed():
    given = Answer(
        found={"the piece": total(1, 4)},
        expected={"the piece": total(0, 4)},
        contents=partial_sums(4),
    )
    assert given.difference(exact=True).sentence == (
        "the piece is wrong: it is piece 1 of ranks 0, 1, 2, 3, "
        "expected piece 0 of ranks 0, 1, 2, 3"
    )


def test_a_piece_of_one_rank_is_called_by_its_number():
    right = [owned(rank, 4) for rank in range(4)]
    given = Answer(
        found=numbered([right[0], right[0], *right[2:]]),
        expected=numbered(right),
        contents={f"piece {number} of rank {number}": one for number, one in enumerate(right)},
    )
    assert given.difference(exact=True).sentence == (
        "piece 1 is wrong: it is piece 0, expected piece 1"
    )
