"""`python -m testbed.compiled`: compile the endpoints, unless they are."""

import sys

from testbed.compiled.build import build
from testbed.errors import TestbedError


def main() -> int:
    try:
        print(f"compiled endpoints: {build()}")
    except TestbedError as error:
        print(f"testbed: {error.message}\n  {error.hint}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
