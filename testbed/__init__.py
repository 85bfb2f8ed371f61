"""Testbed: measure how long a collective takes on a network, packet by packet, from one YAML spec."""

__version__ = "0.1.0"
