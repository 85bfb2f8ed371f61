"""Packet formats: encode and decode only, no state."""

from testbed.errors import TestbedError


class MalformedError(TestbedError):
    """Bytes that are no packet of the format."""
