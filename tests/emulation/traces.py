"""What can be seen of a run on this machine, from outside of Testbed."""

from pathlib import Path

from testbed.emulation.state import RunState

_SETTINGS = (
    "fs/file-max",
    "kernel/pty/max",
    "net/core/rmem_default",
    "net/core/rmem_max",
    "net/core/wmem_default",
    "net/core/wmem_max",
    "net/core/netdev_max_backlog",
    "net/ipv4/neigh/default/gc_thresh1",
    "net/ipv4/neigh/default/gc_thresh3",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv6/conf/all/disable_ipv6",
    "net/ipv6/conf/default/disable_ipv6",
)


def everything_of(state: RunState) -> list[str]:
    """Namespaces of a run, and processes that have its number in their command line."""
    run_id = state.run_id
    found = [f"namespace {entry.name}" for entry in Path("/run/netns").glob(f"tb-{run_id}*")]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if run_id in command:
            found.append(f"process {entry.name}: {command[:80]}")
    return found


def machine_settings() -> dict[str, str]:
    """Settings of the whole machine that a network must not change."""
    paths = {name: Path("/proc/sys") / name for name in _SETTINGS}
    return {name: path.read_text() for name, path in paths.items() if path.exists()}
