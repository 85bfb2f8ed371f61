"""What can be chosen of TCP, for the kernel's and the model's."""

from testbed.transport.parameters import Parameter

PARAMETERS = (
    Parameter(
        "control",
        "the congestion control of its sockets: cubic or reno",
        "cubic",
        "",
        "Linux's default (net.ipv4.tcp_congestion_control)",
        choices=("cubic", "reno"),
    ),
)
