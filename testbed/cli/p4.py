"""`testbed p4 build PROG.p4` and `testbed p4 test PROG [FILE.stf]`: compile a switch program; prove it by packets."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.p4_run import run_switch
from testbed.errors import RunFailed, UsageError

Defines = Annotated[
    list[str] | None, typer.Option("-D", metavar="NAME[=VALUE]", help="Define a macro; may be repeated.")
]
Includes = Annotated[list[Path] | None, typer.Option("-I", metavar="DIR", help="Where to look for included files.")]


def register(app: typer.Typer) -> None:
    p4 = typer.Typer(no_args_is_help=True, help="Compile switch programs and test them with packets.")
    p4.command("build")(build)
    p4.command("test")(run_test)
    p4.command("run")(run_switch)
    p4.command("swap")(swap)
    app.add_typer(p4, name="p4")


def build(
    program: Annotated[str, typer.Argument(metavar="PROG", help="A P4_16 program for v1model, or a name in p4/.")],
    folder: Annotated[Path, typer.Option("-o", metavar="DIR", help="Where the files go.")] = Path(),
    defines: Defines = None,
    includes: Includes = None,
) -> None:
    """Write BMv2 JSON and P4Info; errors are file:line:column, with exit status 2."""
    from testbed.dataplane.programs import path_of

    for path in _compile(path_of(program), folder, defines, includes):
        typer.echo(str(path))


def run_test(
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROG", help="A program, its BMv2 JSON, a name in p4/, or a folder of PROG.p4 with PROG.stf."
        ),
    ],
    stf: Annotated[
        Path | None, typer.Argument(metavar="FILE.stf", help="Configuration, packets and expected packets.")
    ] = None,
    target: Annotated[str, typer.Option("--target", help="native or bmv2.")] = "native",
    defines: Defines = None,
    includes: Includes = None,
    as_json: Annotated[bool, typer.Option("--json", help="Of a folder: print JSON.")] = False,
) -> None:
    """Run a packet test, or all of a folder; exit status 0 only if every expectation holds and nothing else came."""
    if (folder := Path(program)).is_dir():
        if stf is not None:
            raise UsageError(f"{program} is a folder, whose programs have their tests beside them")
        _run_folder(folder, target, defines, includes, as_json)
        return
    from testbed.dataplane.cache import work_folder
    from testbed.dataplane.native.build import prepare
    from testbed.dataplane.programs import path_of
    from testbed.dataplane.stf import read_stf
    from testbed.dataplane.stf_runner import run_stf

    path = path_of(program)
    stf = stf or path.with_suffix(".stf")
    statements = read_stf(stf)
    with work_folder() as work:
        begin = prepare if target == "native" else None
        compiled = path if path.suffix == ".json" else _compile(path, work, defines, includes, begin)[0]
        report = run_stf(compiled, statements, target, str(stf))
    for failure in report.failures:
        typer.echo(f"{stf}: {failure}")
    if report.as_specified or report.as_reference:
        typer.echo(f"{stf}: spec-expect: {report.as_specified} as defined, {report.as_reference} as the reference does")
    if not report.passed:
        raise RunFailed(f"{stf}: {len(report.failures)} failed, {report.held} held")
    typer.echo(f"{stf}: {report.held} held")


def swap(
    switch: Annotated[str, typer.Argument(metavar="SWITCH", help="A native switch of a network that is up, e.g. s0.")],
    program: Annotated[str, typer.Argument(metavar="PROG", help="A program, its BMv2 JSON, or a name in p4/.")],
    entries: Annotated[
        Path | None, typer.Option("--entries", metavar="FILE.stf", help="What its tables hold beside the routes.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep-registers", help="Carry over registers of the same name, width and size.")
    ] = False,
    run_id: Annotated[str | None, typer.Option("--run", metavar="ID", help="Which network, if several.")] = None,
) -> None:
    """Exchange a switch's program while packets flow; it has the routes, and is tried out, before it takes over."""
    from testbed.cli._networks import chosen
    from testbed.dataplane.entries import path_of as entries_path
    from testbed.dataplane.programs import path_of
    from testbed.emulation.keeper import swap_program

    file = str(entries_path(str(entries))) if entries is not None else None
    state = chosen(run_id, also_runs=False)
    swapped = swap_program(state, switch, str(path_of(program).resolve()), file, keep=keep)
    blackout = f"{swapped.blackout_ns / 1000:,.1f} us of real time"
    typer.echo(f"{switch} runs {Path(program).stem}; it took no packet in for {blackout}")
    for what, names in (("kept", swapped.kept), ("begun anew", swapped.reset)):
        if names:
            typer.echo(f"registers {what}: {', '.join(names)}")


def _run_folder(
    folder: Path, target: str, defines: list[str] | None, includes: list[Path] | None, as_json: bool
) -> None:
    from testbed.dataplane.corpus import OUTCOMES, PASSED, read_corpus, run_corpus

    corpus = read_corpus(folder)
    verdicts = []
    for verdict in run_corpus(corpus.programs, target, _macros(defines), includes or ()):
        verdicts.append(verdict)
        if verdict.outcome != PASSED and not as_json:
            for reason in verdict.reasons:
                typer.echo(f"{verdict.program.name}: {verdict.outcome}: {reason}")
    counts = {outcome: sum(one.outcome == outcome for one in verdicts) for outcome in OUTCOMES}
    if as_json:
        programs = [
            {"program": one.program.name, "outcome": one.outcome, "reasons": one.reasons}
            for one in sorted(verdicts, key=lambda one: one.program)
        ]
        typer.echo(json.dumps({**counts, "other_architectures": corpus.others, "programs": programs}, indent=1))
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    said = f"{folder}: {len(verdicts)} programs: {said} ({corpus.others} for other architectures left out)"
    if counts[PASSED] < len(verdicts):
        raise RunFailed(said)
    if not as_json:
        typer.echo(said)


def _macros(defines: list[str] | None) -> dict[str, str]:
    return {name: value or "1" for name, _, value in (d.partition("=") for d in defines or ())}


def _compile(
    program: Path,
    folder: Path,
    defines: list[str] | None,
    includes: list[Path] | None,
    begin: Callable[[], None] | None = None,
) -> list[Path]:
    """Compile into a folder; the files, BMv2 JSON first. `begin` as `compile_p4` has it."""
    from testbed.dataplane.compile import compile_p4

    compiled = compile_p4(program, _macros(defines), includes or (), begin=begin)
    for warning in compiled.warnings:
        typer.echo(str(warning), err=True)
    files = {
        ".json": compiled.text,
        ".p4info.txt": compiled.p4info.text.encode(),
        ".p4info.pb": compiled.p4info.binary,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, content in files.items():
            (folder / f"{program.stem}{suffix}").write_bytes(content)
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: cannot be written: {error.strerror}") from error
    return [folder / f"{program.stem}{suffix}" for suffix in files]
