"""What the verbs about running networks share: which one is meant, and how its age is said."""

from testbed.emulation.state import RunState, person, runs
from testbed.errors import UsageError


def chosen(run_id: str | None, *, also_runs: bool) -> RunState:
    """The live network that is meant: `run_id`'s, or the only one of this user's; raises UsageError.

    `also_runs`: the network of a `testbed run` counts too, if no `testbed up` has one.
    """
    live = [state for state in runs() if state.alive and (also_runs or state.record.kind == "up")]
    if run_id is not None:
        found = next((state for state in live if state.run_id == run_id), None)
        if found is None:
            raise UsageError(f"no network {run_id} is up", hint=_listing(live))
        return found
    mine = [state for state in live if state.record.uid == person()]
    standing = [state for state in mine if state.record.kind == "up"] or mine
    if not standing:
        raise UsageError("no network is up", hint="`testbed up SPEC` brings one up")
    if len(standing) > 1:
        raise UsageError("several networks are up: say which with --run ID", hint=_listing(standing))
    return standing[0]


def age(seconds: float) -> str:
    """`3 min 20 s`"""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _listing(states: list[RunState]) -> str:
    return "up now: " + (", ".join(f"{state.run_id} ({state.record.name})" for state in states) or "none")
