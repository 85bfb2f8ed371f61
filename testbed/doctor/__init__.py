"""What this machine has, lacks and carries: facts looked up, capacity measured once and kept."""

from testbed.doctor.store import load_capabilities

__all__ = ["load_capabilities"]
