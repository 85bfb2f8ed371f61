"""Collectives without packets: each message is a fluid flow over the links of its path (`fidelity: message`).

A message takes the α-β time of its path alone; where messages meet, links are shared max-min fairly. There are no
queues, so nothing is dropped, marked or paused: this is what an ideal congestion control comes to.
"""
