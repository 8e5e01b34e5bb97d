"""The peers of sparse_attention: each is a function of q, k, v (1, heads, n, d), or a reason why it is not run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor
from torch.nn import functional as F

Peer = Callable[[Tensor, Tensor, Tensor], Tensor]


def versions() -> dict[str, str]:
    """Versions of what can be a peer."""
    found = {}
    for name in ("torch", "transformers", "local-attention"):
        try:
            found[name] = version(name).split("+")[0]
        except PackageNotFoundError:
            found[name] = "not here"
    return found


def masked(mask: Tensor) -> Peer:
    """SDPA with an n x n mask."""
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def longformer(width: int) -> Peer | str:
    """The sliding chunks of Longformer as transformers has them: scores, softmax, values, without its projections."""
    try:
        module = import_module("transformers.models.longformer.modeling_longformer")
    except ImportError:
        return "not run: transformers is not installed"
    half = width // 2
    config = module.LongformerConfig(attention_window=[2 * half], hidden_size=8, num_attention_heads=1)
    layer = module.LongformerSelfAttention(config, layer_id=0)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = ((t.transpose(1, 2)) for t in (q / q.shape[-1] ** 0.5, k, v))
        p = torch.softmax(layer._sliding_chunks_query_key_matmul(q, k, half), -1)
        return layer._sliding_chunks_matmul_attn_probs_value(p, v, half).transpose(1, 2)

    return run


def local(width: int) -> Peer | str:
    """The package local-attention: buckets of half a window, one back and one ahead, cut to the exact window."""
    try:
        module = import_module("local_attention")
    except ImportError:
        return "not run: local-attention is not installed"
    made = module.LocalAttention(
        window_size=width // 2, causal=False, look_backward=1, look_forward=1, exact_windowsize=True, use_rotary_pos_emb=False
    )
    return lambda q, k, v: made(q, k, v)


def flex_refusal(device: str, capability: tuple[int, int] | None = None) -> str:
    """Why flex attention is not run here, '' if it can be."""
    if device == "cpu":
        return "" if shutil.which("g++") or shutil.which("clang++") else "not run: flex needs a C++ compiler"
    capability = torch.cuda.get_device_capability() if capability is None else capability
    return "" if capability >= (8, 0) else f"not run: flex needs compute capability 8.0, this is {capability[0]}.{capability[1]}"


def flex(reads: Callable[[Tensor, Tensor], Tensor], n: int, block: int, device: str) -> Peer | str:
    """Compiled flex attention with a mask built beforehand; a fall back to eager mode is an error, not a slow result."""
    if refusal := flex_refusal(device):
        return refusal
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.config.recompile_limit = 64
    mask = create_block_mask(lambda b, h, i, j: reads(i, j), None, None, n, n, device=device, BLOCK_SIZE=block)
    compiled = torch.compile(flex_attention, fullgraph=True, dynamic=False)
    return lambda q, k, v: compiled(q, k, v, block_mask=mask)
