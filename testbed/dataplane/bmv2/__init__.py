"""The real bmv2: its `simple_switch` as a target, filled over Thrift as a native switch is over its ABI."""
