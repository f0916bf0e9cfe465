"""Writes small inputs, most of them odd or broken, with raw h5py and as plain text, and `cases.json`: what must come of each.

The scripts write when they are imported; the order is fixed because they share one generator of random numbers.
"""

import base
import hostile  # noqa: F401
import matrices  # noqa: F401
import tables  # noqa: F401
import texts  # noqa: F401

base.finish()
