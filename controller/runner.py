"""Start one app under the Ryu API (os-ken 4 has no manager command), and join it to the run that started it.

`python runner.py --app ecmp --plan plan.json --control SOCKET --port 6653`. The app's reports become notices on the
control channel, `{"op": "counters"}` is answered with its rows, and when the channel ends the controller ends.
"""

import argparse
import logging
import os
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from failures import Failures
from ryu_api import PACKAGE, AppManager, hub

from testbed.run.channel import Channel, ChannelClosed, ChannelTimeout

_HOUR_S = 3600.0


def main() -> None:
    """Run the app until the run goes away."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--app", default="ecmp", help="an app in this folder, or the path of a file")
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--control", type=Path, required=True)
    parser.add_argument("--port", type=int, default=6653)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    os.environ["TESTBED_PLAN"] = str(options.plan)
    channel = Channel.connect(options.control, "controller", name="controller")
    lock = threading.Lock()

    def send(message: dict[str, Any]) -> None:
        with lock:
            channel.send(message)

    def report(what: str, **fields: Any) -> None:
        send({"event": what, **fields})

    path = _path(options.app)
    failures = Failures(path.parent, report)
    failures.watch()
    try:
        app = _start(path, options.port)
    except Exception as error:
        logging.exception("%s does not start", path)
        failures.tell(error)
        os._exit(1)  # the API's threads are not daemons
    app.report = report
    report("listening", package=PACKAGE, port=options.port)
    try:
        _serve(channel, app, send)
    except ChannelClosed:
        logging.info("the run is gone: ending")
    os._exit(0)


def _path(app: str) -> Path:
    """The file of an app."""
    own = Path(app)
    return own.resolve() if own.suffix == ".py" else Path(__file__).resolve().parent / f"{app}.py"


def _start(path: Path, port: int) -> Any:
    """Load and start an app; returns its instance."""
    sys.path.insert(0, str(path.parent))
    name = path.stem
    if PACKAGE == "os_ken":
        from os_ken.cfg import CONF
    else:
        from ryu.cfg import CONF
    handler = f"{PACKAGE}.controller.ofp_handler"
    manager = AppManager.get_instance()
    manager.load_apps([handler, name])
    CONF([], project=PACKAGE, default_config_files=[])
    CONF.set_override("ofp_tcp_listen_port", port)
    CONF.set_override("ofp_listen_host", "127.0.0.1")
    manager.instantiate_apps(**manager.create_contexts())
    return next(a for a in manager.applications.values() if type(a).__module__ == name)


def _answer(send: Any, identity: int, rows: list[dict[str, Any]]) -> None:
    send({"id": identity, "rows": rows})


def _serve(channel: Channel, app: Any, send: Any) -> None:
    while True:
        try:
            request = channel.receive(_HOUR_S)
        except ChannelTimeout:
            continue
        if request.get("op") == "counters":
            count = getattr(app, "count", lambda done: done([]))  # an app of one's own need not count
            count(partial(_answer, send, request["id"]))
        elif request.get("op") == "quit":
            send({"id": request["id"]})
            hub.sleep(0)
            os._exit(0)
        else:
            send({"id": request.get("id"), "error": f"unknown request {request.get('op')!r}"})


if __name__ == "__main__":
    main()
