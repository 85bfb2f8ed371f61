"""Selective repeat: IRN and SRNIC packet by packet."""
