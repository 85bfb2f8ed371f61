"""P4_16 for switches: a compiler to BMv2 JSON and P4Info, and a native target that runs it in the fabric."""
