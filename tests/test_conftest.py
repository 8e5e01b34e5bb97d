"""Who speaks first about bad input: the shape checker, or attnlib itself."""

from __future__ import annotations

import os

import pytest
import torch
from jaxtyping import TypeCheckError

from attnlib.lowrank import effective_rank
from attnlib.paths import path_counts

SHAPES = os.environ.get("ATTNLIB_SHAPES", "1") != "0"
ROW = torch.zeros(4, dtype=torch.long)


@pytest.mark.skipif(not SHAPES, reason="the shape checker is off in this process")
def test_the_shape_checker_speaks_first():
    with pytest.raises(TypeCheckError):
        effective_rank(ROW)


@pytest.mark.bad_input
def test_in_a_test_of_bad_input_it_is_silent():
    with pytest.raises(ValueError, match="sigma must be floating point"):
        effective_rank(ROW)


@pytest.mark.skipif(not SHAPES, reason="the shape checker is off in this process")
def test_and_afterwards_it_speaks_again():
    with pytest.raises(TypeCheckError):
        path_counts("no list")
