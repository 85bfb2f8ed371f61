"""The fabric of a plan: its links and native switches on the native core, whoever gives the packets and the clock.

Emulation puts it between TAPs under the monotonic clock, in a process of its own; simulation between memory ports under
a virtual one. Neither is known here.
"""
