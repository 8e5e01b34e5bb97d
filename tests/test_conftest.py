"""The shape checker is on while tests run; those of bad input see attnlib's errors."""

from __future__ import annotations

import os

import pytest
import torch
from jaxtyping import TypeCheckError

from attnlib.lowrank import effective_rank

SHAPES = os.environ.get("ATTNLIB_SHAPES", "1") != "0"


@pytest.mark.skipif(not SHAPES, reason="the shape checker is off in this process")
def test_the_shape_checker_speaks_first():
    with pytest.raises(TypeCheckError):
        effective_rank(torch.zeros(4, dtype=torch.long))
