"""The preprocessor: includes, macros, conditional lines, and the places that tokens keep."""

from pathlib import Path

import pytest

from testbed.dataplane.diagnostics import Diagnostics
from testbed.dataplane.preprocess import preprocess
from testbed.errors import UsageError


def words(directory: Path, text: str, defines: dict[str, str] | None = None) -> list[str]:
    """The tokens of a program that has no errors, without the end."""
    tokens, diagnostics = read(directory, text, defines)
    assert [str(error) for error in diagnostics.errors] == []
    return tokens


def read(directory: Path, text: str, defines: dict[str, str] | None = None) -> tuple[list[str], Diagnostics]:
    path = directory / "program.p4"
    path.write_text(text)
    diagnostics = Diagnostics()
    return [token.text for token in preprocess(path, diagnostics, defines)[:-1]], diagnostics


def error(directory: Path, text: str) -> tuple[int, str]:
    """The line and the words of the one error."""
    _, diagnostics = read(directory, text)
    (found,) = diagnostics.errors
    return found.span.line, f"{found.message} {found.hint}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#define A 1 + 2\nA * A", "1 + 2 * 1 + 2"),
        ("#define F(x, y) x - (y)\nF(1, G(2, 3))", "1 - ( G ( 2 , 3 ) )"),
        ("#define F(x) x\nF F(1)", "F 1"),
        ("#define F() 7\nF()", "7"),
        ("#define F(x) #x\nF(a + b)", "a + b"),
        ("#define F(x, y) x ## _ ## y\nF(a, b)", "a_b"),
        ("#define A B\n#define B A\nA B", "A B"),
        ("#define F(x) x F(x)\nF(1)", "1 F ( 1 )"),
        ("#define A 1\n#undef A\nA", "A"),
        ("#define A \\\n 1 \\\n + 2\nA", "1 + 2"),
        ("#define F(x) [x]\nF(\n1\n)", "[ 1 ]"),
        ("#ifdef A\n1\n#else\n2\n#endif", "2"),
        ("#ifndef A\n1\n#else\n2\n#endif", "1"),
        ("#define A 3\n#if A > 2 && defined(A) && !defined B\n1\n#elif A\n2\n#endif", "1"),
        ("#if 0\n1\n#elif 1\n2\n#elif 1\n3\n#else\n4\n#endif", "2"),
        ("#if 0\n#if 1\n1\n#else\n2\n#endif\n'unlexable\n#else\n3\n#endif", "3"),
        ("#if (1 + 2 * 3 == 7) && (0x10 >> 1 == 8 || 1)\n1\n#endif", None),
        ("a // b /* c\nd /* e\nf */ g /**/ h", "a d g h"),
        ('"/* no comment */" "//"', "/* no comment */ //"),
        ("#pragma whatever 1 2\n#line 7\na", "a"),
        ("a\n__LINE__", "a 2"),
        ("  #  define A 1\nA", "1"),
        ("a\r\nb", "a b"),
    ],
)
def test_expansion(tmp_path: Path, text: str, expected: str | None) -> None:
    if expected is None:
        assert "makes no sense" in error(tmp_path, text)[1]  # shifts are none of the operators of #if
    else:
        assert words(tmp_path, text) == expected.split() or " ".join(words(tmp_path, text)) == expected


def test_defines_from_outside(tmp_path: Path) -> None:
    assert words(tmp_path, "#if N == 4\nN\n#endif", {"N": "4"}) == ["4"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a\n#if 1\nb", 2, "no #endif"),
        ("#endif", 1, "without #if"),
        ("#else", 1, "without #if"),
        ("#if 1\n#else\n#else\n#endif", 3, "after #else"),
        ("#if 1 +\n#endif", 1, "missing at its end"),
        ("#if 1 / 0\n#endif", 1, "divides by 0"),
        ("#if (1\n#endif", 1, "does not close"),
        ("#includ <core.p4>", 1, "did you mean 'include'?"),
        ("#include core.p4", 1, "takes"),
        ('#include "coree.p4"', 1, "did you mean 'core.p4'?"),
        ("#error too old", 1, "too old"),
        ("#define", 1, "needs a name"),
        ("#define F(x) x\nF(1, 2)", 2, "takes 1 arguments, not 2"),
        ("#define F(x) x\n\nF(1", 3, "do not end"),
        ("a\n/* b", 2, "comment does not end"),
    ],
)
def test_error(tmp_path: Path, text: str, line: int, message: str) -> None:
    found, words_of_error = error(tmp_path, text)
    assert (found, message in words_of_error) == (line, True), words_of_error


def test_an_include_is_found_beside_the_file_then_in_the_directories(tmp_path: Path) -> None:
    near, far = tmp_path / "near", tmp_path / "far"
    near.mkdir()
    far.mkdir()
    (near / "a.p4").write_text("near_a")
    (far / "a.p4").write_text("far_a")
    (far / "b.p4").write_text('far_b\n#include "a.p4"')
    program = near / "program.p4"
    program.write_text('#include "a.p4"\n#include <a.p4>\n#include <b.p4>\n')
    tokens = preprocess(program, Diagnostics(), include_dirs=[far])
    assert [token.text for token in tokens[:-1]] == ["near_a", "far_a", "far_b", "far_a"]


def test_a_token_knows_its_place(tmp_path: Path) -> None:
    (tmp_path / "inner.p4").write_text("\n  inner")
    program = tmp_path / "program.p4"
    program.write_text('#define A x y\n#include "inner.p4"\n/* c\n */ A z\n')
    places = [(token.text, str(token.span)) for token in preprocess(program, Diagnostics())[:-1]]
    assert places == [
        ("inner", f"{tmp_path}/inner.p4:2:3"),
        ("x", f"{program}:4:5"),  # what comes out of a macro stands where the macro is used
        ("y", f"{program}:4:5"),
        ("z", f"{program}:4:7"),
    ]


def test_endless_things_end(tmp_path: Path) -> None:
    (tmp_path / "program.p4").write_text("")
    assert "deep" in error(tmp_path, '#include "program.p4"')[1]
    doubling = "#define A0 a a\n" + "".join(f"#define A{n} A{n - 1} A{n - 1}\n" for n in range(1, 40)) + "A39"
    assert "too much" in error(tmp_path, doubling)[1]


def test_a_device_is_no_file_to_include(tmp_path: Path) -> None:
    assert "no file '/dev/zero'" in error(tmp_path, '#include "/dev/zero"')[1]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no\.p4"):
        preprocess(tmp_path / "no.p4", Diagnostics())
    with pytest.raises(UsageError):
        preprocess(tmp_path, Diagnostics())
