"""What is known by name of what shipped programs declare: tables, actions and registers, by the last part of names."""

ROUTES, MEMBERS = "routes", "members"  # tables of include/routing.p4
SALTS = "salts"  # a table of include/flow_hash.p4

# Of the programs that add up (aggregate*.p4): tables, registers, and the actions of jobs, which say how.
JOBS, CHILDREN = "jobs", "children"
ARRIVALS, CHUNKS = "arrivals", "chunks"
ROOT, LEAF, SHARED = "aggregate_root", "aggregate_leaf", "aggregate_besteffort"
UNIT, UNIT_LEAF = "average_root", "average_leaf"
