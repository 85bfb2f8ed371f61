"""Exceptions in an app's own code, which the API logs at best: each is told with its place, and the app goes on."""

import logging
import sys
import threading
import traceback
from pathlib import Path

from ryu_api import PACKAGE

_LIBRARIES = "site-packages"
_RUNNER = Path(__file__).with_name("runner.py")


class Failures(logging.Handler):
    """Hears of exceptions by what the API logs while it handles them, and reports those of code in `folder`.

    `report("failed", handler=..., reason=...)` is told the function and `FILE:LINE: EXCEPTION`.
    """

    def __init__(self, folder, report):
        super().__init__(logging.ERROR)
        self._folder = folder
        self._report = report

    def watch(self):
        """Hear of all from now on."""
        logging.getLogger(PACKAGE).addHandler(self)
        told = threading.excepthook

        def hook(ending):
            told(ending)
            self.tell(ending.exc_value)

        threading.excepthook = hook

    def emit(self, record):
        self.tell(record.exc_info[1] if record.exc_info else sys.exc_info()[1])

    def tell(self, error):
        """Report an exception if it came by code of the app's."""
        frames = traceback.extract_tb(error.__traceback__) if error is not None else []
        places = [(frame.filename, frame.lineno, frame.name) for frame in frames]
        if isinstance(error, SyntaxError):
            places.append((error.filename, error.lineno, "code"))
        own = [place for place in places if self._is_own(Path(place[0]))]
        if own:
            file, line, _ = own[-1]
            reason = f"{Path(file).name}:{line}: {type(error).__name__}: {error}"
            self._report("failed", handler=own[0][2], reason=reason)

    def _is_own(self, path):
        return self._folder in path.parents and _LIBRARIES not in path.parts and path != _RUNNER
