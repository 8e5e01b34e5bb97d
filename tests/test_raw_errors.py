"""Calls that once ended in an error of torch, NumPy or Python, or in NaN: each has an
answer, or a ValueError that names the argument.
"""

from __future__ import annotations

import pytest
import torch

from attnlib import attention, efficacy, lowrank

HALVES = (torch.float16, torch.bfloat16)


def some_layers(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 6, generator=generator, dtype=torch.float64).to(dtype)
    return x, attention.random_layers(1, 1, 6, 2, generator=generator, dtype=dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_nystrom_inverts_halves_in_float32(dtype):
    x, _ = some_layers(torch.float32)
    half = x.to(dtype)
    got = lowrank.nystrom_attention(half, half, half, landmarks=2)
    wanted = lowrank.nystrom_attention(*[half.float()] * 3, landmarks=2)
    assert got.dtype == dtype
    assert torch.allclose(got.float(), wanted, atol=0.1)


@pytest.mark.parametrize("dtype", HALVES)
def test_bounds_by_two_norms_refuse_halves_by_name(dtype):
    with pytest.raises(ValueError, match="has no 2-norm of a matrix in torch"):
        efficacy.length_bounds(*some_layers(dtype))


def test_logits_beyond_float16_leave_rows_that_sum_to_one():
    x = torch.full((3, 2), 300.0, dtype=torch.float16)
    w = torch.eye(2, dtype=torch.float16)
    p = attention.attention_matrix(x, w, w)
    assert p.dtype == torch.float16
    assert torch.allclose(p.float(), torch.full((3, 3), 1 / 3), atol=1e-3)


@pytest.mark.parametrize("eps", [1e-200, 1e-100, 1e-9])
@pytest.mark.parametrize("exact", [True, False])
def test_an_eps_that_asks_for_no_countable_dimension_is_refused(eps, exact):
    with pytest.raises(ValueError, match="eps must not ask for"):
        lowrank.required_dimension(eps, 0.1, exact=exact)
    assert lowrank.required_dimension(1e-5, 0.1, exact=False) > 1e11
