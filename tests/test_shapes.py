"""Faults find their place by the shape of the code: shapes.py."""

from __future__ import annotations

import ast

import pytest
from shapes import replaced

SOURCE = """
import math

def one(a, b):
    total = math.sqrt(a) + b
    total = total - 1
    return total

def two(x):
    return math.sqrt(x)
"""


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("math.sqrt(a) + b", "math.sqrt(a) - b", ("sqrt(a) + b", "sqrt(a) - b")),
        ("math.sqrt(y) + z", "math.sqrt(y) - z", ("sqrt(a) + b", "sqrt(a) - b")),
        ("total = total - 1", "", ("    total = total - 1\n", "")),
        ("s = s - 1", "s = s + 2", ("total - 1", "total + 2")),
        ("return math.sqrt(x)", "return x", ("return math.sqrt(x)", "return x")),
    ],
)
def test_a_shape_is_found_whatever_its_locals_are_called(old, new, wanted):
    assert ast.unparse(replaced(SOURCE, old, new)) == ast.unparse(
        ast.parse(SOURCE.replace(*wanted))
    )


@pytest.mark.parametrize(
    ("old", "why"),
    [
        ("math.sqrt(q)", "may be meant at 2 places"),  # a or x
        ("cmath.sqrt(a) + b", "is nowhere"),  # no local is called math
        ("math.sqrt(a) * b", "is nowhere"),
    ],
)
def test_a_shape_that_is_not_there_or_not_alone_is_refused(old, why):
    with pytest.raises(ValueError, match=why):
        replaced(SOURCE, old, "0")
