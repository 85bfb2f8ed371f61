"""P4Runtime for native switches: a gRPC server through which any client may drive them.

How whoever moves packets starts it (it is in `server.py`; messages are those of the Python package `finsy`, which is in
the extra `p4runtime`):

    server = P4RuntimeServer([Device(1, switch, ports, config, seed=1)], datapath, "127.0.0.1:9559")
    server.start()        # returns once it listens
    server.stop()         # ends all streams; what was written stays

One thread serves all devices, so that a request falls between two others. A device (`device.py`) has sessions that
contend to be primary (`arbitration.py`), and up to two pipelines (`pipeline.py`): the one that packets go through, and
one that was saved and takes the requests until it is committed. A pipeline is a program's instance, a P4Info that fits
it (`schema.py`), and a store for each kind of entity (`tables.py`, `profiles.py`, `arrays.py`, `replication.py`,
`value_sets.py`, `digests.py`), which remembers what was written as it is read. A batch is carried out while no packet
moves. Times of the protocol (timeouts, rates) are the switch's own: model time.

Ports are known by their numbers; the controller's is SDN_PORT_CPU or 510. Clients are told of cables that are cut and
mended by stream messages of the kind `other`, a google.protobuf.Struct {"port": N, "up": whether}.

What the specification (version 1.5) has and this server refuses by name: roles, watch ports, backup replicas, classes
of service and lengths of clones, counters by colour, single-rate three-colour meters, match kinds and types whose
values are strings, and externs of one's own.
"""

from testbed.errors import MachineLacks

try:
    import finsy.proto  # noqa: F401
    import grpc  # noqa: F401 - it is the absence of both that is to be told
except ImportError as error:
    raise MachineLacks(
        "P4Runtime needs the Python packages finsy and grpcio", hint="pip install 'testbed[p4runtime]'"
    ) from error
