"""The bytes around a payload: headers of Ethernet, IPv4, UDP and TCP, and what a link's rate counts beyond a frame."""

ETHERNET_BYTES, IPV4_BYTES, UDP_BYTES, TCP_BYTES = 14, 20, 8, 20
TCP_TIMESTAMP_BYTES = 12  # RFC 7323, with two NOPs as Linux sends it
FCS_BYTES = 4
WIRE_BYTES = FCS_BYTES + 8 + 12  # and preamble with delimiter, inter-frame gap (IEEE 802.3, clauses 3 and 4)

UDP_HEADERS_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES
TCP_HEADERS_BYTES = ETHERNET_BYTES + IPV4_BYTES + TCP_BYTES + TCP_TIMESTAMP_BYTES
UDP_WIRE_BYTES = UDP_HEADERS_BYTES + WIRE_BYTES  # around a UDP payload, as a link's rate counts it
UDP_MOST_BYTES = 65_535 - IPV4_BYTES - UDP_BYTES  # of one send, segmented or not: IPv4's length field
