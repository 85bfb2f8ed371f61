"""The numbers of OpenFlow 1.3 (ONF TS-006, 1.3.0) that agents use; names are the specification's without the prefix."""

from enum import IntEnum
from typing import Final

VERSION: Final = 4
HEADER_BYTES: Final = 8
LONGEST_MESSAGE: Final = 0xFFFF
NO_BUFFER: Final = 0xFFFFFFFF
UNKNOWN_COUNT: Final = 0xFFFFFFFFFFFFFFFF  # of a counter that the switch has not
GROUP_MAX, GROUP_ALL, GROUP_ANY = 0xFFFFFF00, 0xFFFFFFFC, 0xFFFFFFFF
TABLE_ALL: Final = 0xFF
MORE: Final = 1  # OFPMPF_REQ_MORE and OFPMPF_REPLY_MORE


class Kind(IntEnum):
    """OFPT: types of messages."""

    HELLO = 0
    ERROR = 1
    ECHO_REQUEST = 2
    ECHO_REPLY = 3
    EXPERIMENTER = 4
    FEATURES_REQUEST = 5
    FEATURES_REPLY = 6
    GET_CONFIG_REQUEST = 7
    GET_CONFIG_REPLY = 8
    SET_CONFIG = 9
    PACKET_IN = 10
    FLOW_REMOVED = 11
    PORT_STATUS = 12
    PACKET_OUT = 13
    FLOW_MOD = 14
    GROUP_MOD = 15
    PORT_MOD = 16
    TABLE_MOD = 17
    MULTIPART_REQUEST = 18
    MULTIPART_REPLY = 19
    BARRIER_REQUEST = 20
    BARRIER_REPLY = 21
    ROLE_REQUEST = 24
    ROLE_REPLY = 25


class Multipart(IntEnum):
    """OFPMP: what a multipart message is of."""

    DESC = 0
    FLOW = 1
    AGGREGATE = 2
    TABLE = 3
    PORT_STATS = 4
    GROUP = 6
    GROUP_DESC = 7
    GROUP_FEATURES = 8
    TABLE_FEATURES = 12
    PORT_DESC = 13


class ReservedPort(IntEnum):
    """OFPP."""

    MAX = 0xFFFFFF00
    IN_PORT = 0xFFFFFFF8
    TABLE = 0xFFFFFFF9
    NORMAL = 0xFFFFFFFA
    FLOOD = 0xFFFFFFFB
    ALL = 0xFFFFFFFC
    CONTROLLER = 0xFFFFFFFD
    LOCAL = 0xFFFFFFFE
    ANY = 0xFFFFFFFF


class Capability(IntEnum):
    """OFPC."""

    FLOW_STATS = 1
    TABLE_STATS = 2
    PORT_STATS = 4
    GROUP_STATS = 8


class FlowCommand(IntEnum):
    """OFPFC."""

    ADD = 0
    MODIFY = 1
    MODIFY_STRICT = 2
    DELETE = 3
    DELETE_STRICT = 4


class FlowFlag(IntEnum):
    """OFPFF."""

    SEND_FLOW_REM = 1
    CHECK_OVERLAP = 2
    RESET_COUNTS = 4
    NO_PKT_COUNTS = 8
    NO_BYT_COUNTS = 16


class GroupCommand(IntEnum):
    """OFPGC."""

    ADD = 0
    MODIFY = 1
    DELETE = 2


class GroupType(IntEnum):
    """OFPGT."""

    ALL = 0
    SELECT = 1
    INDIRECT = 2
    FF = 3


class Instruction(IntEnum):
    """OFPIT."""

    GOTO_TABLE = 1
    WRITE_METADATA = 2
    WRITE_ACTIONS = 3
    APPLY_ACTIONS = 4
    CLEAR_ACTIONS = 5
    METER = 6
    EXPERIMENTER = 0xFFFF


class Action(IntEnum):
    """OFPAT."""

    OUTPUT = 0
    GROUP = 22
    DEC_NW_TTL = 24
    SET_FIELD = 25
    EXPERIMENTER = 0xFFFF


class Oxm(IntEnum):
    """OFPXMT_OFB: fields of OFPXMC_OPENFLOW_BASIC."""

    IN_PORT = 0
    ETH_TYPE = 5
    IPV4_DST = 12


class Role(IntEnum):
    """OFPCR_ROLE."""

    NOCHANGE = 0
    EQUAL = 1
    MASTER = 2
    SLAVE = 3


class PacketInReason(IntEnum):
    """OFPR."""

    NO_MATCH = 0
    ACTION = 1


class RemovedReason(IntEnum):
    """OFPRR."""

    DELETE = 2
    GROUP_DELETE = 3


class PortReason(IntEnum):
    """OFPPR."""

    MODIFY = 2


class PortState(IntEnum):
    """OFPPS."""

    LINK_DOWN = 1
    LIVE = 4


class TableProperty(IntEnum):
    """OFPTFPT; each but MATCH and WILDCARDS has a sibling for table misses, greater by one."""

    INSTRUCTIONS = 0
    NEXT_TABLES = 2
    WRITE_ACTIONS = 4
    APPLY_ACTIONS = 6
    MATCH = 8
    WILDCARDS = 10
    WRITE_SETFIELD = 12
    APPLY_SETFIELD = 14


class HelloFailed(IntEnum):
    """OFPHFC."""

    INCOMPATIBLE = 0


class BadRequest(IntEnum):
    """OFPBRC."""

    BAD_VERSION = 0
    BAD_TYPE = 1
    BAD_MULTIPART = 2
    BAD_EXPERIMENTER = 3
    EPERM = 5
    BAD_LEN = 6
    BUFFER_UNKNOWN = 8
    BAD_TABLE_ID = 9
    IS_SLAVE = 10
    BAD_PORT = 11
    BAD_PACKET = 12
    MULTIPART_BUFFER_OVERFLOW = 13


class BadAction(IntEnum):
    """OFPBAC."""

    BAD_TYPE = 0
    BAD_LEN = 1
    BAD_EXPERIMENTER = 2
    BAD_OUT_PORT = 4
    TOO_MANY = 7
    BAD_OUT_GROUP = 9
    BAD_SET_TYPE = 13


class BadInstruction(IntEnum):
    """OFPBIC."""

    UNKNOWN_INST = 0
    UNSUP_INST = 1
    BAD_TABLE_ID = 2
    BAD_EXPERIMENTER = 5
    BAD_LEN = 7


class BadMatch(IntEnum):
    """OFPBMC."""

    BAD_TYPE = 0
    BAD_LEN = 1
    BAD_NW_ADDR_MASK = 4
    BAD_WILDCARDS = 5
    BAD_FIELD = 6
    BAD_VALUE = 7
    BAD_MASK = 8
    BAD_PREREQ = 9
    DUP_FIELD = 10


class FlowModFailed(IntEnum):
    """OFPFMFC."""

    TABLE_FULL = 1
    BAD_TABLE_ID = 2
    OVERLAP = 3
    BAD_TIMEOUT = 5
    BAD_COMMAND = 6
    BAD_FLAGS = 7


class GroupModFailed(IntEnum):
    """OFPGMFC."""

    GROUP_EXISTS = 0
    INVALID_GROUP = 1
    OUT_OF_GROUPS = 3
    OUT_OF_BUCKETS = 4
    CHAINING_UNSUPPORTED = 5
    WATCH_UNSUPPORTED = 6
    UNKNOWN_GROUP = 8
    BAD_TYPE = 10
    BAD_COMMAND = 11
    BAD_BUCKET = 12


class PortModFailed(IntEnum):
    """OFPPMFC."""

    EPERM = 4


class TableModFailed(IntEnum):
    """OFPTMFC."""

    EPERM = 2


class SwitchConfigFailed(IntEnum):
    """OFPSCFC."""

    BAD_FLAGS = 0


class RoleRequestFailed(IntEnum):
    """OFPRRFC."""

    STALE = 0
    BAD_ROLE = 2


class TableFeaturesFailed(IntEnum):
    """OFPTFFC."""

    EPERM = 5


ERROR_TYPES: Final[dict[type[IntEnum], int]] = {
    HelloFailed: 0,
    BadRequest: 1,
    BadAction: 2,
    BadInstruction: 3,
    BadMatch: 4,
    FlowModFailed: 5,
    GroupModFailed: 6,
    PortModFailed: 7,
    TableModFailed: 8,
    SwitchConfigFailed: 10,
    RoleRequestFailed: 11,
    TableFeaturesFailed: 13,
}
"""OFPET: the type of an error by the enumeration of its codes."""
