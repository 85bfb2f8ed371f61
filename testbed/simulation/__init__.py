"""The simulated engine: the plan under a virtual clock, without root and without processes."""
