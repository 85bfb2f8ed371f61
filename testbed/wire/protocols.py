"""The protocols by which switches add up what ranks send: SwitchML's, ATP's and OptINC's."""

SLOTS, BEST_EFFORT, OPTICAL = "slots", "besteffort", "optical"
