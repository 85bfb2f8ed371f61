"""Streams of randomness: made again from the seed, and apart from each other."""

from testbed.streams import derive, stream


def test_a_stream_is_made_again_from_its_seed_and_name() -> None:
    assert stream(7, "stall", 3, 1).random() == stream(7, "stall", 3, 1).random()


def test_streams_of_other_names_or_seeds_are_others() -> None:
    names: list[tuple[str | int, ...]] = [("a",), ("b",), ("a", 1), ("a", "1"), ("a1",), ("a", 1, 2), ("a", 12)]
    assert len({derive(seed, *name) for seed in (0, 1) for name in names}) == 2 * len(names)
