"""Worked examples and attained bounds of the page `The KV cache`."""

from __future__ import annotations

import math

import pytest
import torch

from attnbook.theorems import cache as page
from attnlib.bridges import state_floor

double = torch.float64


def test_floors_by_hand():
    """The second question asks for the first token as well; four keys on a circle."""
    same = torch.tensor([[0.75, 0.25], [0.625, 0.375]], dtype=double)
    assert state_floor(same).tolist() == pytest.approx([0.5, 0.0], abs=1e-14)
    eye = torch.eye(2, dtype=double)
    for bits, floor in ((1, 1), (2, 1 / 3), (3, 1 / 7)):
        found = state_floor(eye, bits=bits)
        assert found.tolist() == pytest.approx([floor, floor], abs=1e-14)
    top = math.exp(2) / (math.exp(2) + 2 + math.exp(-2))
    floors = state_floor(page.circle_questions(4, 2.0))
    assert floors.tolist() == pytest.approx([2 * top - 1] * 4, abs=1e-14)


def test_answers_midway_attain_the_floor():
    chest = page.keeping(n=2, gap=math.inf, bits=2, how="midway")
    right = page.right_answers(torch.eye(2, dtype=double), 2, bits=2)
    errors = (chest["answers"][chest["kept"]] - right).abs().amax(1)
    assert errors.tolist() == pytest.approx([1 / 3] * 16, abs=1e-14)


def test_eight_drawers_hold_half_of_sixteen_lists():
    found = page.state(**page.keeping())
    assert found.value == found.bound == 0.5


@pytest.mark.parametrize(("beyond", "floor"), [(2.0, math.tanh(1)), (0.0, 0.0)])
def test_equally_near_keys_attain_the_floor_of_questions(beyond, floor):
    """Nine keys with products -1/8, at T = ln 8 and two more."""
    length = (math.log(8) + beyond) / (1 + 1 / 8)
    found = page.questions(page.unit_keys("simplex", 9), length)
    assert (found.value, found.bound) == pytest.approx((floor, floor), abs=2e-12)


@pytest.mark.parametrize(("states", "share"), [(27, 1 / 9), (1, 1 / 243)])
def test_a_state_that_keeps_what_fits_writes_all_of_it(states, share):
    found = page.copying(**page.remembering(n=5, symbols=3, states=states))
    assert (found.value, found.bound) == pytest.approx((share, share), abs=1e-15)


def test_three_keys_against_one_attain_the_bound_of_clusters():
    """ln 3 once and -ln 3 three times, kept as four at 0: answers 1/2 and -1/2, and
    2 tanh(ln(3) / 2) = 1.
    """
    third = math.log(3)
    k = torch.tensor([[third], [-third], [-third], [-third]], dtype=double)
    one = torch.ones(1, 1, dtype=double)
    labels = torch.zeros(4, dtype=torch.int64)
    found = page.clusters(one, k, k.sign(), 0 * one, labels)
    assert found.value == pytest.approx(1, abs=1e-12)
