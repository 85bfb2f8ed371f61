"""Documents of BMv2 JSON as nobody meant them: parts left out, doubled, moved and put in each other's place.

python -m tests.dataplane.mutants [COUNT]: that many, at full count by hand; what was not foreseen shows.
"""

import copy
import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.bmv2model import JsonError
from testbed.dataplane.native.generator import generate

ORACLE = Path(__file__).with_name("oracle")
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 1.5, 1 << 31, 1 << 64, 10**30, float("inf"), "", "x", "*", "0x", "0xzz", "-0x5", "\ud800"),
    *([], {}, [None], ["x"], [[]], {"type": "x"}, "standard_metadata", "ingress"),
)
MOST_CHANGES = 3


def documents() -> list[Any]:
    """The oracle's, as p4c made them."""
    return [json.loads(path.read_text()) for path in sorted(ORACLE.glob("*.json"))]


def mutant(originals: Sequence[Any], seed: int) -> Any:
    """One of the documents, changed in up to MOST_CHANGES places."""
    draw = random.Random(seed)
    document = copy.deepcopy(draw.choice(originals))
    for _ in range(draw.randint(1, MOST_CHANGES)):
        places = list(_places(document))
        holder, key = draw.choice(places)
        other, its = draw.choice(places)
        match draw.choice(("remove", "replace", "move", "double", "shift")):
            case "remove":
                del holder[key]
            case "replace":
                holder[key] = draw.choice(VALUES)
            case "move":
                holder[key] = copy.deepcopy(other[its])
            case "double" if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case _ if isinstance(holder[key], int):
                holder[key] += draw.choice((-1, 1, 1000))
            case _ if isinstance(holder[key], str):
                holder[key] = holder[key][:-1]
            case _ if isinstance(holder[key], list):
                draw.shuffle(holder[key])
    return document


def unforeseen(originals: Sequence[Any], seeds: range) -> Iterator[str]:
    """Which mutants neither become C nor are refused, and what happens instead."""
    for seed in seeds:
        try:
            generate(program_of(mutant(originals, seed), "mutant"))
        except JsonError:
            pass
        except Exception as error:
            yield f"seed {seed}: {type(error).__name__}: {error}"


def _places(part: Any) -> Iterator[tuple[Any, Any]]:
    """Every value in a document, as what holds it and its key there."""
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in items:
        yield part, key
        yield from _places(value)


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    for line in unforeseen(documents(), range(total)):
        print(line, flush=True)
    print(f"{total} mutants")
