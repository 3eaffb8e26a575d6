"""Random streams with names: the numbers depend on the name alone, not on the machine or on other draws."""

from __future__ import annotations

import hashlib
import os

import numpy as np

SAMPLE = "LNTUTOR_SAMPLE"  # environment variable: any text in it gives other random numbers everywhere
DRAWN = os.environ.get(SAMPLE, "")  # read once per process, as drawn numbers are kept


def random_stream(*name) -> np.random.Generator:
    """A numpy generator seeded by a hash of the name."""
    name = (DRAWN, *name) if DRAWN else name
    digest = hashlib.blake2b(repr(name).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
