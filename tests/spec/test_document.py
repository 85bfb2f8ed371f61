"""YAML text as a tree: what is not YAML, or more than a spec needs of it, is told in one line with its place."""

from pathlib import Path

import pytest

from testbed.errors import UsageError
from testbed.spec.document import Mistake, parse
from testbed.spec.reader import read_spec

from .examples import RIGHT, mistakes


def test_positions_are_those_of_the_text() -> None:
    root, errors = parse("a:\n  - {name: x, b: 10us}\n  - 3\n")
    assert errors == []
    nodes, beyond = root.find(("a", 0, "b"))
    assert not beyond
    assert (nodes[-1].mark.line, nodes[-1].mark.column) == (2, 18)
    assert (nodes[-1].key_mark.line, nodes[-1].key_mark.column) == (2, 15)
    assert [node.name for node in nodes] == ["", "a", "x", "b"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000.0),
        ("1_000", 1000),
        ("0x10", 16),
        ("010", "010"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("'1e3'", "1e3"),
        ("yes", True),
        ("off", False),
        ("~", None),
        (".5", 0.5),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_scalars_are_what_they_look_like(text: str, value: object) -> None:
    assert parse(text)[0].plain() == value


def test_merge_keys_and_aliases_work_and_the_later_key_wins() -> None:
    root, errors = parse("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a\n")
    assert errors == []
    assert root.plain() == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 1, "y": 2}}


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "the spec is empty"),
        ("# nothing\n", 1, 1, "the spec is empty"),
        ("- a\n- b\n", 1, 1, "not a mapping"),
        ("word", 1, 1, "not a mapping"),
        ("name: x\nlinks: [1, 2\nseed: 3\n", 3, 5, "not YAML"),
        ("name: x\n\tseed: 3\n", 2, 1, "a tab"),
        ("name: x\n---\nname: y\n", 2, 1, "a second document"),
        ("name: \x07\n", 1, 7, "U+0007"),
        ("name: !!python/object:os.system {}\n", 1, 7, "the tag !!python/object:os.system is not supported"),
        ("name: &a [*a]\n", 1, 7, "contains itself"),
        ("{[a]: 1}", 1, 2, "a key must be a word"),
        ("[" * 2000, 1, 1, "nested too deeply"),
    ],
)
def test_what_is_not_a_spec_is_told_in_one_line(
    tmp_path: Path, text: str, line: int, column: int, message: str
) -> None:
    found = [error for error in mistakes(tmp_path, text) if message in error.message]
    assert [(error.line, error.column) for error in found] == [(line, column)]
    assert "\n" not in found[0].text("spec.yaml")


def test_bytes_that_are_no_utf8_are_told_with_their_place(tmp_path: Path) -> None:
    (error,) = mistakes(tmp_path, b"name: caf\xe9\n")
    assert (error.line, error.column) == (1, 10)
    assert "0xe9" in error.message


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert mistakes(tmp_path, b"\xef\xbb\xbf" + RIGHT.encode()) == ()


def test_a_bomb_of_aliases_is_refused_quickly() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    with pytest.raises(Mistake, match="expand to more than"):
        parse("\n".join(lines))


def test_a_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "tour.yaml").write_text(RIGHT)
    with pytest.raises(UsageError, match="No such file") as caught:
        read_spec(tmp_path / "tuor.yaml")
    assert "tour.yaml" in caught.value.hint


def test_a_folder_is_no_spec(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="directory"):
        read_spec(tmp_path)
