"""Programs with one error each: refused at its line, in words that name it."""

from pathlib import Path

import pytest

from testbed.dataplane.check import front_end
from testbed.dataplane.diagnostics import P4Errors
from tests.dataplane.programs import ORACLE, errors_of, program

NEGATIVE = sorted(ORACLE.glob("neg_*.p4"))
MARK = "//!"  # behind the line that is to blame


@pytest.mark.parametrize("path", NEGATIVE, ids=lambda path: path.stem)
def test_oracle(path: Path) -> None:
    line = int(path.with_suffix(".expect").read_text().split()[1])
    with pytest.raises(P4Errors) as found:
        front_end(path)
    assert [error.span.line for error in found.value.errors] == [line]
    assert found.value.exit_status == 2


def test_all_oracle_programs_are_there() -> None:
    assert len(NEGATIVE) == 13


APPLY = {
    "unknown name": ("h.k.a = nothing; //!", "no declaration of 'nothing'"),
    "unknown field": ("h.k.d = 1; //!", "k_t has no member 'd'"),
    "close name": ("bit<8> length = 0; h.k.a = lenght; //!", "did you mean 'length'?"),
    "unknown type": ("word_t w; //!", "no type 'word_t'"),
    "unknown method": ("h.k.isvalid(); //!", "did you mean 'isValid'?"),
    "width": ("h.k.b = h.k.a; //!", "takes bit<16>, not bit<8>"),
    "sign": ("h.k.a = h.k.s; //!", "(cast it: (bit<8>))"),
    "two casts": ("h.k.b = (bit<16>)h.k.s; //!", "cast to int<16> first"),
    "bool to bits": ("h.k.a = (bit<8>)m.f; //!", "(bit<8>)(bit<1>)"),
    "bits to bool": ("m.f = h.k.a; //!", "takes bool"),
    "sum of widths": ("h.k.b = h.k.b + h.k.a; //!", "different widths"),
    "not of bits": ("m.f = !h.k.a; //!", "'!' does not apply"),
    "and of bits": ("m.f = m.f && h.k.a; //!", "'&&' joins bools"),
    "complement": ("h.k.a = ~5; //!", "give the number a width"),
    "concatenation": ("h.k.b = h.k.a ++ 5; //!", "'++' joins bits"),
    "saturating": ("h.k.a = 5 |+| 6; //!", "a width to saturate at"),
    "shift by signed": ("h.k.a = h.k.a << h.k.s; //!", "unsigned number"),
    "shift by negative": ("h.k.a = h.k.a << -1; //!", "makes no sense"),
    "shift of number": ("h.k.a = 1 << h.k.a; //!", "can only be shifted by a constant"),
    "division by zero": ("h.k.a = h.k.a / 0; //!", "divides by 0"),
    "division of negatives": ("h.k.a = (bit<8>)(7 / -2); //!", "negative numbers"),
    "division": ("h.k.a = h.k.a / h.k.c; //!", "applies to constants"),
    "signed division": ("h.k.s = h.k.s % 2; //!", "signed values"),
    "order of enums": ("m.f = m.act < Act.Go; //!", "'<' does not apply"),
    "equality of types": ("m.f = m.act == m.f; //!", "compares values of one type"),
    "number to enum": ("m.kind = 1; //!", "takes Kind, not int"),
    "enum member": ("m.act = Act.Run; //!", "Act has no member 'Run'"),
    "error member": ("m.f = sm.parser_error == error.Oops; //!", "no error 'Oops'"),
    "slice ends": ("h.k.a[0:3] = 1; //!", "ends reversed"),
    "slice of run-time end": ("h.k.a = h.k.b[h.k.a:0]; //!", "known when compiling"),
    "slice of bool": ("h.k.a = m.f[7:0]; //!", "no bits to slice"),
    "loop over what is declared elsewhere": (
        "bit<8> i; for (i in 8w1 .. 6) { } //!",
        "declared here, with its type (as bit<8> i in ...)",
    ),
    "index of header": ("h.k[0] = 1; //!", "no elements to index"),
    "negative index": ("h.st[-1].v = 1; //!", "outside of"),
    "next outside of parser": ("h.st.next.v = 1; //!", "parser states only"),
    "assignment to call": ("h.k.isValid() = true; //!", "cannot be written"),
    "assignment to constant": ("const bit<8> C = 1;\nC = 2; //!", "it is a constant"),
    "list too short": ("m.p = { 1 }; //!", "takes 2 values, not 1"),
    "record field": ("m.p = { x = 1, z = 2 }; //!", "no field 'z'"),
    "record lacks": ("m.p = { x = 1 }; //!", "lacks the field 'y'"),
    "conditional": ("h.k.a = m.f ? h.k.a : h.k.b; //!", "takes bit<8>, not bit<16>"),
    "conditional of numbers": ("h.k.a = m.f ? 1 : 2; //!", "needs a width"),
    "void value": ("h.k.a = h.k.setValid(); //!", "without a result"),
    "too many arguments": ("h.k.setValid(1); //!", "takes 0 arguments"),
    "validity of struct": ("m.p.setValid(); //!", "has no method 'setValid'"),
    "validity of union member's parent": ("h.u.setInvalid(); //!", "has no method"),
    "push by field": ("h.st.push_front(h.k.a); //!", "known when compiling"),
    "call of variable": ("bit<8> t = 0;\nt(); //!", "cannot be called"),
    "call of type": ("pair_t(); //!", "cannot be called"),
    "break": ("break; //!", "outside of a loop"),
    "return of value": ("return 1; //!", "nothing is returned"),
    "verify": ("verify(true, error.NoMatch); //!", "parser states only"),
    "instance in apply": ("counter(4, CounterType.bytes) c; //!", "no instance"),
    "variable of int": ("int i = 5; //!", "give it a width"),
    "second declaration": ("bit<8> t;\nbit<16> t; //!", "second time"),
    "use before declaration": ("h.k.a = late; //!\nbit<8> late = 0;", "no declaration of 'late'"),
    "scope ends": ("if (m.f) { bit<8> t = 0; }\nh.k.a = t; //!", "no declaration of 't'"),
    "switch label": ("switch (h.k.a) { //!\n16w1: { }\n}", "takes bit<8>, not bit<16>"),
    "switch twice": ("switch (h.k.a) {\n1: { }\n1: { } //!\n}", "stands twice"),
    "switch default first": ("switch (h.k.a) { //!\ndefault: { }\n1: { }\n}", "follows 'default'"),
    "switch on header": ("switch (h.k) { } //!", "does not choose"),
    "hash without width": ("hash(m.x, HashAlgorithm.crc16, 8w0, { h.k.a, 1 }, 8w4); //!", "needs a width"),
    "algorithm": ("hash(m.x, HashAlgorithm.md5, 8w0, { h.k.a }, 8w4); //!", "no member 'md5'"),
    "field list index": ("resubmit_preserving_field_list(h.k.a); //!", "known when compiling"),
    "named argument": ("truncate(size = 5); //!", "no parameter 'size'"),
    "argument twice": ("truncate(length = 5, length = 6); //!", "given twice"),
    "assert fails": ('static_assert(1 == 2, "no"); //!', "static_assert fails: no"),
    "missing semicolon": ("h.k.a = 1\nh.k.c = 2; //!", "missing at the end of line"),
    "missing parenthesis": ("if (m.f { } //!", "')' is expected"),
    "assignment as condition": ("if (m.f = true) { } //!", "use '==' to compare"),
    "comparison as statement": ("h.k.a == 1; //!", "use '=' to assign"),
    "stray symbol": ("h.k.a = 1 $ 2; //!", "'$' has no meaning"),
    "bad number": ("h.k.a = 0xZZ; //!", "no number"),
    "unclosed string": ('log_msg("open); //!', "does not end"),
}


@pytest.mark.parametrize(("code", "message"), APPLY.values(), ids=APPLY.keys())
def test_statement(tmp_path: Path, code: str, message: str) -> None:
    expect_error(tmp_path, program(apply=code), message)


MEMBERS = {
    "table without actions": ("table t { //!\nkey = { h.k.a: exact; }\n}", "no property 'actions'"),
    "unknown action": ("table t {\nactions = { go; } //!\n}", "no action 'go'"),
    "action twice": ("table t {\nactions = { NoAction; NoAction; } //!\n}", "stands twice"),
    "key of header": ("table t {\nkey = { h.k: exact; } //!\nactions = { NoAction; }\n}", "cannot be a key"),
    "key without name": ("table t {\nkey = { h.k.a + 1: exact; } //!\nactions = { NoAction; }\n}", "no name"),
    "lpm of bool": ("table t {\nkey = { m.f: lpm; } //!\nactions = { NoAction; }\n}", "made of bits"),
    "default with too few": (
        "action a(bit<8> v) { h.k.a = v; }\ntable t {\nactions = { a; }\ndefault_action = a(); //!\n}",
        "lacks an argument for 'v'",
    ),
    "default at run time": (
        "action a(bit<8> v) { h.k.a = v; }\ntable t {\nactions = { a; }\ndefault_action = a(h.k.c); //!\n}",
        "known when compiling",
    ),
    "bound data": (
        "action a(bit<8> v) { h.k.a = v; }\ntable t {\nactions = { a(1); } //!\n}",
        "only parameters with a direction",
    ),
    "unbound direction": (
        "action a(inout bit<8> v) { v = 1; }\ntable t {\nactions = { a; } //!\n}",
        "lacks an argument for 'v'",
    ),
    "entry of two keys": (
        "table t {\nkey = { h.k.a: exact; }\nactions = { NoAction; }\nconst entries = {\n(1, 2): NoAction(); //!\n}\n}",
        "has 1 keys",
    ),
    "mask of exact": (
        "table t {\nkey = { h.k.a: exact; }\nactions = { NoAction; }\nentries = {\n1 &&& 3: NoAction(); //!\n}\n}",
        "kind exact",
    ),
    "mask of lpm": (
        "table t {\nkey = { h.k.a: lpm; }\nactions = { NoAction; }\nconst entries = {\n1 &&& 5: NoAction(); //!\n}\n}",
        "ones first",
    ),
    "entries without key": (
        "table t { //!\nactions = { NoAction; }\nconst entries = { 1: NoAction(); }\n}",
        "entries, but no key",
    ),
    "size": ("table t {\nactions = { NoAction; }\nsize = -1; //!\n}", "must be from 0"),
    "property twice": ("table t {\nactions = { NoAction; }\nsize = 1;\nsize = 2; //!\n}", "second property"),
    "counters": (
        "counter(4, CounterType.bytes) c;\ntable t {\nactions = { NoAction; }\ncounters = c; //!\n}",
        "direct_counter",
    ),
    "order of parameters": ("action a(bit<8> v, in bit<8> w) { } //!", "come last"),
    "data of a struct": ("action a(pair_t p) { } //!\ntable t { actions = { a; } }", "cannot give 'p'"),
    "table in action": ("table t { actions = { NoAction; } }\naction a() {\nt.apply(); //!\n}", "apply blocks only"),
    "constructor argument": ("counter(h.k.a, CounterType.bytes) c; //!", "takes bit<32>"),
    "constructor at run time": ("register<bit<8>>((bit<32>)h.k.a) r; //!", "known when compiling"),
    "type argument": ("register(16) r; //!", "does not follow"),
    "type arguments": ("register<bit<8>, bit<8>>(16) r; //!", "takes 1 type arguments"),
    "constant at run time": ("const bit<8> C = h.k.a; //!", "known when compiling"),
    "parser in control": ("Prs() p; //!", "no parser can be declared"),
    "itself": ("Ig() again; //!", "no type 'Ig'"),
}


@pytest.mark.parametrize(("code", "message"), MEMBERS.values(), ids=MEMBERS.keys())
def test_member_of_control(tmp_path: Path, code: str, message: str) -> None:
    expect_error(tmp_path, program(members=code), message)


STATES = {
    "no start": ("state begin { transition accept; }", "no state 'start'"),
    "state twice": (
        "state start { transition a; }\nstate a { transition accept; }\nstate a { transition accept; } //!",
        "twice",
    ),
    "built-in state": ("state start { transition accept; }\nstate reject { transition accept; } //!", "built in"),
    "close state": ("state start { transition acept; } //!", "did you mean 'accept'?"),
    "select label": ("state start { transition select(h.k.a) { //!\n16w1: accept;\n} }", "takes bit<8>, not bit<16>"),
    "select count": ("state start { transition select(h.k.a, h.k.b) { //!\n1: accept;\n} }", "chooses by 2 values"),
    "select of header": ("state start { transition select(h.k) { default: accept; } } //!", "does not choose"),
    "select at run time": ("state start { transition select(h.k.a) {\nh.k.c: accept; //!\n} }", "known when compiling"),
    "never ends": ("state start { transition a; }\nstate a { transition start; }", "never ends"),
    "extract struct": ("state start { pk.extract(m.p); transition accept; } //!", "extract reads a header"),
    "extract varbit": ("state start { pk.extract(h.v); transition accept; } //!", "how many bits"),
    "extract of fixed": ("state start { pk.extract(h.k, 8); transition accept; } //!", "no varbit field"),
    "lookahead": ("state start { m.x = pk.lookahead(); transition accept; } //!", "does not follow"),
    "return": ("state start { return; } //!", "parser state"),
    "switch": ("state start { switch (h.k.a) { } transition accept; } //!", "transition select"),
    "behind transition": ("state start { transition accept;\nh.k.a = 1; //!\n}", "behind the transition"),
}


@pytest.mark.parametrize(("code", "message"), STATES.values(), ids=STATES.keys())
def test_parser(tmp_path: Path, code: str, message: str) -> None:
    expect_error(tmp_path, program(states=code), message)


TOP = {
    "no return": ("bit<8> f(in bit<8> x) { //!\nif (x == 0) { return 1; }\n}", "not every way"),
    "returns nothing": ("bit<8> f() {\nreturn; //!\n}", "returns a value of type bit<8>"),
    "exit in function": ("void f() {\nexit; //!\n}", "'exit' cannot stand"),
    "type twice": ("struct M { bit<8> x; } //!", "second time"),
    "field twice": ("struct S {\nbit<8> x;\nbit<16> x; //!\n}", "twice"),
    "field of header": ("header bad_t {\nAct a; //!\n}", "no field of type Act"),
    "field of union": ("header_union bad_t {\nbit<8> a; //!\n}", "no field of type bit<8>"),
    "stack of bits": ("struct S {\nbit<8>[4] a; //!\n}", "a stack holds headers"),
    "width": ("struct S {\nbit<(2 - 3)> a; //!\n}", "must be from 0"),
    "width of a field": ("const bool B = true;\nstruct S {\nbit<(B)> a; //!\n}", "is a number"),
    "enum value": ("enum bit<8> E { A } //!", "needs a value"),
    "enum with value": ("enum E { A = 1 } //!", "gives values"),
    "enum of bool": ("enum bool E { A = true } //!", "made of bit"),
    "error twice": ("error { NoMatch } //!", "twice"),
    "new type": ("type pair_t p_t; //!", "a new type is made of"),
    "generic struct": ("struct G<T> { T x; }\nstruct S {\nG y; //!\n}", "takes 1 type arguments"),
    "direction of extern": ("control C(in packet_in p) { apply { } } //!", "has no direction"),
    "global variable": ("bit<8> counter_of_packets; //!", "begins with 'const'"),
    "close keyword": ("heder x_t { bit<8> a; } //!", "did you mean 'header'?"),
    "control without apply": ("control C() { } //!", "no apply block"),
    "include": ("#include <nothing.p4> //!", "no file 'nothing.p4'"),
    "overload": ("void f(in bit<8> x) { }\nvoid f(in bit<8> x) { } //!", "second time"),
    "type variable": ("T f<T>() { T t; return t; }\nconst bit<8> C = 1 + f(); //!", "does not follow"),
}


@pytest.mark.parametrize(("code", "message"), TOP.values(), ids=TOP.keys())
def test_top(tmp_path: Path, code: str, message: str) -> None:
    expect_error(tmp_path, program(top=code), message)


def expect_error(directory: Path, text: str, message: str) -> None:
    """The first error stands at the marked line, if one is marked, and says this."""
    errors = errors_of(directory, text)
    assert errors
    assert message in str(errors[0])
    marked = [number for number, line in enumerate(text.splitlines(), 1) if MARK in line]
    assert marked in ([], [errors[0].span.line])


def test_signature_of_a_block(tmp_path: Path) -> None:
    text = program().replace("control Vfy(inout H h", "control Vfy(in H h")
    (error,) = errors_of(tmp_path, text)
    assert "'vr' of V1Switch" in error.message


def test_program_without_main(tmp_path: Path) -> None:
    text = "\n".join(program().splitlines()[:-1])
    (error,) = errors_of(tmp_path, text)
    assert "no 'main'" in error.message


def test_several_errors_come_in_one_pass(tmp_path: Path) -> None:
    errors = errors_of(tmp_path, program(apply="h.k.a = x1;\nh.k.b = x2;\nh.k.c = x3;"))
    assert [error.message.split("'")[1] for error in errors] == ["x1", "x2", "x3"]


def test_several_syntax_errors_come_in_one_pass(tmp_path: Path) -> None:
    errors = errors_of(tmp_path, program(members="action a() { h.k.a = ; }", apply="h.k.a 1;\nh.k.b = 2;\nif h.k.c;"))
    assert len(errors) == 3


def test_one_error_has_no_followers(tmp_path: Path) -> None:
    errors = errors_of(tmp_path, program(apply="nothing_t t = h.k.a;\nh.k.a = t + 1;\nif (t.x == 1) { t = h.k.b; }"))
    assert len(errors) == 1


def test_an_error_shows_its_place(tmp_path: Path) -> None:
    (error,) = errors_of(tmp_path, program(apply="\th.k.a = h.k.b;"))
    first, source, caret = str(error).splitlines()
    assert first.startswith(f"{tmp_path / 'program.p4'}:{error.span.line}:10: error: ")
    assert source[caret.index("^") :][: caret.count("^") + caret.count("~")] == "h.k.b"


def test_a_deep_tree_is_refused_or_read(tmp_path: Path) -> None:
    chain = " + ".join(["h.k.a"] * 900)
    assert errors_of(tmp_path, program(apply=f"h.k.a = {chain};")) == ()
    for deep in ("(" * 5000, "h.k.a = " + "-" * 5000, "{" * 5000, "if (m.f) " * 5000, "bit<(" * 5000):
        assert errors_of(tmp_path, program(apply=deep))
    assert "operators follow each other" in str(errors_of(tmp_path, program(apply="h.k.a = " + "1 + " * 5000))[0])
