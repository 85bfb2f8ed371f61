"""The Ryu API under whichever name it is installed: os-ken (its living continuation) or classic ryu.

Apps import from here, so that one file loads under both. Only what the apps use is named.
"""

try:
    from os_ken.base.app_manager import AppManager
    from os_ken.base.app_manager import OSKenApp as App
    from os_ken.controller import ofp_event
    from os_ken.controller.handler import CONFIG_DISPATCHER, DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
    from os_ken.lib import hub
    from os_ken.ofproto import nicira_ext, ofproto_v1_3

    PACKAGE = "os_ken"
except ImportError:  # classic ryu
    from ryu.base.app_manager import AppManager
    from ryu.base.app_manager import RyuApp as App
    from ryu.controller import ofp_event
    from ryu.controller.handler import CONFIG_DISPATCHER, DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
    from ryu.lib import hub
    from ryu.ofproto import nicira_ext, ofproto_v1_3

    PACKAGE = "ryu"


class _TaskExit(BaseException):
    """The end of a task: nothing raises it."""


if hub.TaskExit is Exception:  # os-ken 4 under native threads: any exception would end an app's thread, and say nothing
    hub.TaskExit = _TaskExit

__all__ = [
    "CONFIG_DISPATCHER",
    "DEAD_DISPATCHER",
    "MAIN_DISPATCHER",
    "PACKAGE",
    "App",
    "AppManager",
    "hub",
    "nicira_ext",
    "ofp_event",
    "ofproto_v1_3",
    "set_ev_cls",
]
