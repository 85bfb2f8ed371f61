"""Lowering: from the typed tree of a v1model program to BMv2 JSON, the way `simple_switch` loads it."""
