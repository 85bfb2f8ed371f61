"""The Falcon-like transport, packet by packet."""
