"""Topologies: graphs of nodes and directed links, one builder a file, registered here."""
