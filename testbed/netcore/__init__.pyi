"""The native core as Python sees it: the fabric, and the packet helpers of the wire format and of the worker.

IPv4 addresses are integers in host order (`int(ipaddress.IPv4Address("10.0.0.1"))`), as are ports. Times are integer
nanoseconds of CLOCK_MONOTONIC and are *real* time: callers multiply model time by the dilation. Under a virtual clock
they are that clock's, from 0.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal, final

Buffer = bytes | bytearray | memoryview

SLOT_BYTES: Final[int]
"""Room that `receive_segments` gives each datagram: 65536."""

MAX_SEGMENTS: Final[int]
"""Most wire packets of one super-packet: 64 (UDP_MAX_SEGMENTS of Linux before 6.9)."""

MAX_DATAGRAM_BYTES: Final[int]
"""Most UDP payload bytes of one super-packet: 65507 (65535 - IPv4 header - UDP header)."""

JOBS: Final[int]
"""How many jobs a fabric can tell apart."""

LONGEST_NS: Final[int]
"""The longest delay or jitter of a link, in real time: 2^60 ns, 36 years."""

CPU_PORT: Final[int]
"""The port by which programs send packets to the control plane: 510, as v1model programs have it."""

PASSES: Final[int]
"""Times that packets may come round in a switch at one instant: 4096."""

HOLD_LIMIT_S: Final[int]
"""The longest that `Fabric.hold` waits for the loop, and any method for the loop or a holder (RuntimeError): 5 s."""

# --- RoCEv2 -----------------------------------------------------------------------------------------------------------

def icrc(headers: Buffer, data: Buffer) -> int:
    """The invariant CRC of one RoCEv2 packet (IBTA A17.3.3); on the wire it is stored little-endian.

    headers: the IPv4 header and the UDP header as on the wire (28 bytes or more with options; their lengths already
    count the 4 ICRC bytes). data: the UDP payload from the BTH up to, not including, the ICRC. Raises ValueError if
    `headers` is no IPv4 + UDP or `data` is shorter than a BTH.
    """

def roce_encode(
    buffer: bytearray | memoryview,
    headers: Sequence[bytes],
    payload: Buffer,
    segment_bytes: int,
    source_ip: int,
    target_ip: int,
    source_port: int,
    target_port: int,
    segmented: bool = True,
) -> list[tuple[int, int, int]]:
    """Lay out the UDP payloads of a run in `buffer`: header i, the i-th segment of `payload`, pad to 4 B, ICRC.

    Returns pieces (offset, bytes, segment size), each for one `send_segments`: a new piece begins wherever wire packets
    differ in size (a WRITE's first packet carries a RETH), or after MAX_SEGMENTS or MAX_DATAGRAM_BYTES. The ICRC is
    that of a packet sent from an unconnected socket prepared by `prepare_udp`: DF set, IP identification = index within
    the piece; with segmented=False always 0, since then each packet is sent by itself. The caller sets PadCnt.

    Raises ValueError if `buffer` is too small (len(payload) + packets x (header + 7) suffices), or if the number of
    headers does not fit the number of segments (an empty payload is one packet, or in segments of 0 any number).
    """

def roce_decode(
    data: memoryview,
    segment_bytes: int,
    source_ip: int,
    target_ip: int,
    source_port: int,
    target_port: int,
    opcodes: bytes,
) -> tuple[list[tuple[tuple[bytes, ...], memoryview, int]], int, int]:
    """Check and take apart one datagram of `receive_segments`; returns (runs, wrong ICRCs, malformed packets).

    Each run is (headers, payload, segment bytes) as `testbed.transport.endpoint.Arrival` wants it: consecutive PSNs of
    one destination queue pair within one message, all payloads of equal size but the last, which may be shorter.
    `payload` is a view into `data`, which is compacted in place (so it must be writable, and read before the next
    receive). segment_bytes 0 (or >= len(data)): the datagram is a single wire packet. opcodes: 256 entries; entry i
    tells of BTH opcode i: bits 0-5 its header bytes, BTH included (0: unknown, malformed); bit 7 set if such a packet
    begins a message; bit 6, which is for `Fabric.open_socket`, if more packets of it follow. The IP
    identification is not known here, so each packet may have that of any place in a super-packet (0 to
    MAX_SEGMENTS - 1).
    """

# --- sockets ----------------------------------------------------------------------------------------------------------

def prepare_udp(fd: int) -> None:
    """Set what the functions below and the ICRC rely on: always DF (IP_PMTUDISC_DO), UDP_GRO, receive ToS and time.

    The socket must stay unconnected (a connected one numbers its packets). Raises OSError.
    """

def send_segments(
    fd: int, target_ip: int, target_port: int, data: Buffer, segment_bytes: int, tos: int, segmented: bool = True
) -> int:
    """Send `data` as UDP packets of `segment_bytes` (the last may be shorter), with UDP_SEGMENT; returns bytes sent.

    0: the socket would block (all or nothing where segmented). With segmented=False sendmmsg sends single packets, and
    may send only some of them. Raises OSError; EIO or EINVAL with segmented=True means that the kernel cannot segment
    towards that device (no checksum offload): encode and send again with segmented=False.
    """

def receive_segments(fd: int, buffer: bytearray | memoryview) -> list[tuple[int, int, int, int, int, int, int]]:
    """Receive what is there, without waiting: [(offset, bytes, segment_bytes, source_ip, source_port, tos, at_ns)].

    `buffer` is used in slots of SLOT_BYTES, one a datagram; its length must be a multiple of it. segment_bytes is 0 for
    a datagram that is one wire packet. at_ns: when the kernel got it (CLOCK_MONOTONIC). Raises OSError.
    """

def socket_drops(fd: int) -> int:
    """Packets the kernel dropped at this socket since it was opened (buffer full, wrong checksum)."""

def ppoll(fds: Sequence[tuple[int, int]], timeout_ns: int | None) -> list[tuple[int, int]]:
    """poll(2) to the nanosecond: [(fd, POLLIN | POLLOUT)] -> those ready. [] at the end of the time or on a signal."""

def set_timer_slack(slack_ns: int) -> None:
    """PR_SET_TIMERSLACK of the calling thread (the default of 50 us is added to every wait)."""

Run = tuple[int, int, int, int, tuple[bytes, ...], memoryview, int]
"""What came to a socket of a fabric: (source_ip, source_port, tos, segment_bytes, headers, payload, corrupt)."""

# --- fabric -----------------------------------------------------------------------------------------------------------

def open_tap(name: str, virtio: bool, segmentation: bool) -> tuple[int, bool]:
    """Make a TAP device in the calling thread's namespace; returns (fd, whether super-packets will cross it).

    It vanishes when the fd is closed. virtio: frames carry a virtio-net header. segmentation: ask for TCP and UDP
    segmentation (TUN_F_USO4, Linux 6.2); without it every packet crosses by itself. Raises OSError.
    """

def open_packet(name: str) -> int:
    """Open an existing interface of the calling thread's namespace as a port: a raw packet socket; returns its fd.

    Everything that comes in there is read (promiscuous), what others send out of it is not. Checksums that the kernel
    left unfinished are finished, super-packets are cut, and VLAN tags that it took off are put back. It holds a ring of
    16384 slots in 32 MiB. Raises OSError (ENODEV: there is none; EPERM).
    """

def packet_drops(fd: int) -> int:
    """Frames that came in at an interface since the last call and were dropped: the fabric read too slowly."""

def set_running(name: str, running: bool) -> None:
    """Show an interface of the calling thread's namespace as running or not (IFF_RUNNING), which a switch tells on.

    It becomes dormant (RFC 2863) and keeps its carrier, without which the kernel drops what is sent into a TAP before
    the fabric reads it. Raises OSError.
    """

@final
class Fabric:
    """Ports, native P4 switches and directed links under one event queue.

    Under the monotonic clock: `run` may be in one thread (it holds no GIL) while another calls the other methods; they
    are carried out by the running loop between two batches of packets. Under a virtual clock: `advance`, or `play` if
    there are sockets or functions to be called; never `run`.
    """

    def __init__(self, seed: int, *, virtual: bool = False) -> None: ...
    def add_port(self, fd: int, *, virtio: bool, host: bool, switch: int, spray: bool, join: bool) -> int:
        """Take a TAP over (the fd is closed with the fabric); returns its number.

        virtio: frames carry a virtio-net header. host: the link leaving this port is a host's NIC, which neither drops
        nor marks. switch: the number of the switch that the port belongs to, if it is no host's: packets are known
        again when they leave the switch they entered. spray: a random nibble goes into the source MAC of frames leaving
        here. join: super-packets may.
        """

    def set_address(self, port: int, mac: bytes, ip: int) -> None:
        """Tell a host's addresses, so that its link counts what comes to it and is not addressed to it (`strayed`).

        That is IPv4 to another address, or any frame to another MAC address but a group's or everybody's.
        """

    def add_memory_port(self) -> int:
        """A host's port without a device, under a virtual clock: `send` puts frames in, `taken` has what came out."""

    def add_switch(self, program: int, seed: int, *, dilation: int = 1) -> int:
        """Make an instance of a compiled program; returns the switch's number.

        program: the address of its `struct p4_program`, which must stay loaded as long as the fabric lives. seed: of
        the program's `random`. dilation: what the program sees of time (its timestamps and meters) is model time, the
        fabric's divided by this. Raises ValueError for a program of another ABI version.
        """

    def switch_instance(self, switch: int) -> int:
        """The address of the switch's `struct p4_instance`, to be changed between `hold` and `release` only."""

    def load_program(self, switch: int, program: int, seed: int) -> int:
        """Make an instance of another program for a switch, in place of one loaded before; returns its address.

        Packets do not go through it until `swap_program`, so that it may be filled meanwhile, by the same thread. The
        program must stay loaded as long as the fabric lives. Raises ValueError as add_switch does, MemoryError.
        """

    def probe_program(self, switch: int, port: int, frame: bytes) -> int | None:
        """The port to which the loaded program would send a frame that came by `port`, and that goes nowhere; -1: to
        several, or it comes round; None: it is dropped. The instance counts and remembers it. Raises RuntimeError if
        none is loaded, MemoryError.
        """

    def swap_program(self, switch: int) -> None:
        """Have the loaded instance in force. Raises RuntimeError if none is loaded.

        Packets that wait in queues leave by the program before, whose instance is forgotten after that.
        """

    def add_switch_port(self, switch: int, number: int) -> int:
        """Give a switch a port; `number` is what its program calls it. Returns a port's index as add_port does."""

    def configure_switch(
        self,
        switch: int,
        *,
        scheduler: Literal["strict"] | Sequence[int] = "strict",
        buffer: tuple[int, float, int] | None = None,
        pfc: tuple[int, int, int] | None = None,
        trim: int = 0,
    ) -> None:
        """Set how all of a switch's queues work, after its ports and links and before packets.

        scheduler: "strict" (a larger priority first), or the 8 weights of deficit round robin, of priority 0 first.
        buffer: (shared bytes, alpha, headroom bytes a port) in place of the links' queue sizes. pfc: (bit mask of
        priorities, xoff bytes, xon bytes). trim: bytes to which a packet is cut that would be dropped; 0: never.
        """

    def set_group(self, switch: int, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Set a multicast group's copies: port number and replication id of each. None of them: no group."""

    def set_session(self, switch: int, session: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Set where a clone session's copies go, as `set_group`."""

    def add_link(self, source: int, target: int, index: int) -> int:
        """Join two ports one way; `index` keys its random draws. Set its parameters before running."""

    def set_link(
        self,
        link: int,
        *,
        rate_bps: int,
        delay_ns: int,
        queue_bytes: int,
        jitter_ns: int = 0,
        reorder: bool = False,
        ecn: tuple[int, int, float] | None = None,
        loss: tuple[float, float] | None = None,
        duplicate: float = 0.0,
        corrupt: float = 0.0,
    ) -> None:
        """Set all parameters; packets inside keep going. ecn: (min bytes, max bytes, probability); loss: (mean, burst).

        Raises ValueError for a rate of 0, a time above LONGEST_NS, or a loss that no Gilbert-Elliott chain has
        (mean > burst / (burst + 1)).
        """

    def set_link_up(self, link: int, up: bool) -> None:
        """Take a link down (all packets in it are lost, what was due before still arrives) or up again."""

    def set_job(self, udp_ports: tuple[int, ...], tcp_first: int, tcp_last: int) -> None:
        """Which packets count as a job's: UDP destination ports, or TCP source or destination port in a range.

        Those to UDP port 48864, which switches add up, always do. Raises ValueError for more ports than JOBS.
        """

    def set_job_hosts(self, hosts: Sequence[tuple[int, int]]) -> None:
        """Tell jobs apart by the sender: (IPv4 address, number of its job, below JOBS) each.

        Packets of other senders count as no job's. Without hosts all are of job 0. Raises ValueError for more jobs.
        """

    def counters(
        self, job: int | None = None, mark: bool = False, /
    ) -> list[tuple[dict[str, int], dict[str, int], dict[str, int]]]:
        """Each link's (counts of all packets, counts of a job's or of all jobs', what is of the link alone).

        With `mark` as if `mark` followed at the same instant.

        Counts: entered, packets, bytes (both delivered), dropped_queue, dropped_loss, dropped_down, corrupted,
        duplicated, ecn_marked, strayed, shortened, in_flight. entered + duplicated = packets + dropped_* + in_flight,
        and of a switch's port also + what its program's egress took (dropped, or recirculated). A trimmed packet is one
        of `packets`, with the bytes it has left; `switch_counters` tells how many there were. Of the packets that a
        link brought to a host, strayed ones are not addressed to it (`set_address`), and shortened ones are, but were
        trimmed on their way. Of the link: max_queue_bytes, busy_ns, measured_bps (0: too few back to back),
        late_p50_ns, late_p99_ns (-1: nothing was written), malformed, write_errors, pool_exhausted, paused_ns (by PFC),
        pfc_sent (pause and resume frames).
        """

    def link_counts(self, link: int) -> dict[str, int]:
        """The counts of all packets of one link, as `counters` has them."""

    def pauses(self) -> list[tuple[int, int, int, int]]:
        """What PFC keeps from being served now: (link, priority, for how many ns without a break, bytes waiting)."""

    def mark(self) -> None:
        """Forget lateness, measured rates and highest queues, so that the next `counters` tells of what follows."""

    def transit(self) -> tuple[int, int] | None:
        """How long packets were inside switches since the last `mark`, in real ns: (p50, p99); None: no packet was."""

    def nic_priorities(self, by_dscp: bool) -> None:
        """Whether host NICs queue by DSCP (priority = DSCP >> 3), else all packets have priority 0."""

    def hold(self) -> None:
        """Park the loop between two packets, so that what is done until `release` is one change to all switches.

        Other methods still work meanwhile, but the fabric's clock stands still: what is handed in waits, and nothing
        arrives or leaves until `release`, which has all that was due happen late. Raises RuntimeError if it is held
        already, or if the loop did not come to rest within HOLD_LIMIT_S. `stop` works while it is held: the loop ends
        once released.
        """

    def release(self) -> None:
        """Let the loop go on. Raises RuntimeError if it is not held."""

    def inject(self, switch: int, port: int, frame: Buffer) -> None:
        """Treat a frame as if it came in by that port number of the switch, now. It need not be one of its ports."""

    def send_out(self, switch: int, port: int, frame: Buffer) -> None:
        """Put a frame into the queue of a switch's port, past the program. Raises KeyError: it has no such port."""

    def send(self, port: int, frame: Buffer) -> None:
        """Put a frame into the link of a memory port, now."""

    def taken(self) -> list[tuple[int, int, bytes]]:
        """What came out at memory ports since the last call, in order: (port, at_ns, frame)."""

    def punted(self) -> list[tuple[int, int, bytes]]:
        """What programs sent to CPU_PORT since the last call: (switch, port number it came in by, frame)."""

    def digests(self, switch: int) -> list[tuple[int, bytes]]:
        """Digests since the last call: (number of the field list, its fields each padded to whole bytes)."""

    def messages(self, switch: int) -> list[str]:
        """What the program logged since the last call (log_msg, failed assert and assume)."""

    def set_depth(self, switch: int, depth_bytes: int | None) -> None:
        """Tell programs this queue depth in place of the true one, for packet tests; None: the true one."""

    def switch_counters(self, switch: int, job: int | None = None, /) -> dict[str, int]:
        """Counts of a switch's packets; those of a job (None: of all jobs) with the prefix `job_`.

        received (from links), injected (by the control plane, to ports and from them), duplicated (copies made by
        multicast and clones), dropped_program, dropped_assert (an assert or assume failed), dropped_port (sent to one
        that is not there), dropped_passes (came round too often), dropped_memory, punted, dropped_punt (not fetched),
        trimmed; of the switch alone: digests, lost_digests, lost_messages.
        """

    def capture_start(self, port: int, path: str, snap_bytes: int, *, interface: str = "", comment: str = "") -> None:
        """Write what enters and leaves at a port into a new pcapng file, with its direction. Raises OSError.

        interface, comment: what the file says of the port. Inbound is what a link brings to the port's node.
        """

    def capture_stop(self) -> None:
        """End all captures; their files are complete then. Raises the first OSError that kept one from being so."""

    def advance(self, until_ns: int) -> None:
        """Let the virtual clock go to an instant, and all happen that is due by then.

        RuntimeError: there are sockets or functions to be called (`play`), or it is held, or no virtual clock.
        """

    # Sockets of hosts at memory ports, under a virtual clock. `play` keeps the interpreter's lock, and calls turns and
    # functions between two events; these may call any other method but `play` and `advance`.

    def add_neighbour(self, ip: int, mac: bytes) -> None:
        """Let sockets send to an address that is no host's (`set_address` tells of those)."""

    def open_socket(
        self,
        port: int,
        udp_port: int,
        turn: Callable[[int, list[Run]], object],
        *,
        framing: Literal["roce", "plain"],
        opcodes: bytes = b"",
    ) -> int:
        """Open a UDP socket at a memory port with a link and addresses; returns its number.

        `turn(now_ns, runs)` is called when something came that is to be told at once, or when the alarm rings; it gets
        all that came since the last turn, in order. "roce": payloads travel by reference, and are told of as what they
        are *then* in the sender's memory; a packet that comes cut, flipped or malformed is a run with `corrupt` 1 and
        nothing else. With `opcodes` (as `roce_decode` takes them) what a go-back-N receiver only keeps waits for the
        next turn: packets that are not the last of their message, in sequence, not asking for an acknowledgement, not
        CE, with the ToS of the one before. Packets whose payloads lie end to end in the run that
        they were sent in are one run again. Without `opcodes` each packet is told at its instant, with its BTH alone as
        header. "plain": the UDP payload is real bytes; `headers` is (), and each packet is told at its instant.

        Raises ValueError if the UDP port is taken, or the port has no link or no addresses (`set_address`).
        """

    def send_run(
        self,
        socket: int,
        target_ip: int,
        source_port: int,
        tos: int,
        headers: Sequence[bytes],
        payload: Buffer,
        segment_bytes: int,
        /,
    ) -> int:
        """Hand a run to the host's NIC now; returns when the NIC will have serialised all that it was handed.

        That is if nothing pauses it. Header i goes before the i-th segment of the payload (an empty payload is one
        packet, or in segments of 0 any number); "roce" adds padding and ICRC, and PadCnt is the caller's. To the
        socket's UDP port at the host that has the address; DF, TTL 64, no UDP checksum, IP identification = index in
        the run. The memory of a "roce" payload is kept, and must stay as it is, until its packets are gone. Raises
        ValueError if nobody has the address, or headers and payload do not fit; MemoryError.
        """

    def alarm(self, socket: int, at_ns: int | None, *, free: bool = False) -> None:
        """Give the socket a turn at an instant, in place of the one asked for before; None: no more.

        free: as soon after it as the NIC has nothing waiting and nothing being serialised. It rings once.
        """

    def sink(self, port: int, first_udp_port: int, last_udp_port: int) -> None:
        """Have what comes to these UDP ports of a memory port end there, counted and never told."""

    def sink_counts(self, port: int) -> tuple[int, int]:
        """(packets, frame bytes) that ended at a port's sinks."""

    def set_host_cost(self, port: int, per_packet_ns: float, per_byte_ns: float) -> None:
        """What the host's processor needs for each packet of its sockets, and for each byte of its frame.

        It serves one packet at a time, those that came and those that are sent, in order: what came is told, and what
        is sent gets to the NIC, at the end of that. Costs are rounded to picoseconds.
        """

    def call_at(self, at_ns: int, function: Callable[[int], object]) -> None:
        """Call `function(now_ns)` at an instant, after what was scheduled for it before. ValueError: it is over."""

    def play(self, until_ns: int, /) -> int:
        """Let all happen that is due by an instant, or until `stop_playing`; returns the clock's time then.

        What a turn or a function raises ends it, as KeyboardInterrupt does, and is raised; it may be played on.
        """

    def stop_playing(self) -> None:
        """Make `play` return when the turn or function that calls this is over."""

    def statistics(self) -> dict[str, int]:
        """events fired by `play`, hops (packets that links delivered), packets now, most_packets at once; now_ns, the
        clock's time, which after an exception is that of the turn or function that raised it.
        """

    def queued(self) -> list[int]:
        """Bytes that wait before each link now, by its number, under a virtual clock."""

    def run(self) -> None:
        """Move packets until `stop`. Raises OSError if the event loop itself fails.

        TimeoutError, which is one: a thread held the fabric for more than HOLD_LIMIT_S, and holds it no more.
        """

    def stop(self) -> None:
        """Make `run` return."""

QueuePair = tuple[int, int, int, int, int, int, int]
"""peer, its address, number of this half, of the other half, UDP source port, first PSN sent, first PSN that comes."""

Sending = tuple[int, int, int, int, int | None, list[int], int, int, int, bool]
"""Of a queue pair: sequence numbers of the first packet of the messages that are not acknowledged, of the first that is
not, of the next that is sent, and after the last that asked; the timer; those messages; since when it could send; when
the last run left, and its bits on the wire; whether it waits for an acknowledgement."""

Receiving = tuple[int, int, int, tuple[int, int] | None, bool]
"""Of a queue pair: the sequence number that is expected; messages that are complete; packets since the last
acknowledgement; the receive that is under way and how many bytes of it are there; whether an acknowledgement is due."""

@final
class FastPath:
    """A rank's RoCE endpoint, NIC and part of a schedule in one, for as long as nothing odd happens to it.

    It does what `testbed.simulation.fast` says, as `fastpath.h` has it. It has a socket's turns in place of what that
    was opened with, until something is odd: then `odd(now_ns, runs)` is called once, as a turn is, with the runs that
    were not taken in; and the socket's turns are again as they were. `ended(now_ns)` is called when the rank has come
    to the end of an iteration.

    pairs: by ascending peer. layers: each send, reduces, peer, tag, waits, first, last, freed and frees as
    `testbed.collective.program.Program` has them (reduces: its `op` is to add), the place in the scratch of each
    receive, the layer's buffer, the scratch; and how many tags its schedule has. buffer: all layers' buffers.
    constants: MTU, window, packets until an acknowledgement is due, packets of a run, the timer (0: none), bytes on the
    wire around a packet's header, payload and padding, ToS of data and of acknowledgements. numbers: what elements are:
    "f4", "i4", or "" where they do not matter, and nothing is written anywhere. stride: between the first
    numbers of two layers' operations. Raises ValueError if something does not fit, and MemoryError, as do all below.
    """

    def __init__(
        self,
        fabric: Fabric,
        socket: int,
        *,
        pairs: list[QueuePair],
        layers: list[tuple[object, ...]],
        buffer: object,
        constants: tuple[int, int, int, int, int, int, int, int],
        numbers: str,
        element_bytes: int,
        stride: int,
        ended: Callable[[int], object],
        odd: Callable[[int, list[Run]], object],
    ) -> None: ...
    def prepare(self, first_tag: int, /) -> None:
        """Post the receives of an iteration; the one before is over."""

    def start(self, now_ns: int, /) -> None:
        """Begin to send, and take a turn."""

    def wake(self, now_ns: int, /) -> None:
        """Take a turn."""

    def retire(self) -> None:
        """Give the socket's turns back."""

    def idle(self) -> bool:
        """No send is unacknowledged, and nothing waits to be sent."""

    def counters(self) -> tuple[int, int, int, int, int]:
        """Packets sent and received, bytes of payload sent and received, bytes of frames sent, FCS included."""

    def progress(self) -> tuple[int, int | None, int]:
        """Of the iteration: when something was complete last, when something was received last, bytes received."""

    def instants(self) -> tuple[int, int | None]:
        """When the NIC has serialised what it was handed; when something is due next."""

    def states(self, layer: int, /) -> bytes:
        """Of each operation, as the executor has them; 4: a receive that is posted, for which a message has come."""

    def waits(self, layer: int, /) -> list[int]:
        """For how many operations each still waits."""

    def pairs(self) -> list[tuple[int, Sending, Receiving]]:
        """The queue pairs, by peer."""

    def active(self) -> list[int]:
        """Peers to whom something is to be sent or of whom something is awaited, the next to be served first."""

    def happened(self) -> list[int]:
        """Operations that are complete, and that the schedule was not told of."""
