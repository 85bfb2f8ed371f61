"""The native target: BMv2 JSON to C to a shared object, its runtime, and the handle of a switch that runs it."""
