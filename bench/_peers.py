"""The peers from elsewhere, each made here; one that cannot be made raises, and the
table says why it was not run. A Peer takes (1, heads, n, d).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Peer = Callable[[Tensor, Tensor, Tensor], Tensor]
Reads = Callable[[Tensor, Tensor], Tensor]  # whether query i reads key j


def masked(mask: Tensor) -> Peer:
    """SDPA with an n x n mask."""
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def longformer(width: int) -> Peer:
    """The sliding chunks of Longformer as transformers has them: scores, softmax,
    values, without its projections.
    """
    from transformers.models.longformer import modeling_longformer as module

    half = width // 2
    config = module.LongformerConfig(
        attention_window=[2 * half], hidden_size=8, num_attention_heads=1
    )
    layer = module.LongformerSelfAttention(config, layer_id=0)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = (q / q.shape[-1] ** 0.5).transpose(1, 2)
        k = k.transpose(1, 2)
        v = v.transpose(1, 2)
        p = layer._sliding_chunks_query_key_matmul(q, k, half)
        p = torch.softmax(p, -1)
        y = layer._sliding_chunks_matmul_attn_probs_value(p, v, half)
        return y.transpose(1, 2)

    return run


def local(width: int) -> Peer:
    """The package local-attention: buckets of half a window, one back and one ahead,
    cut to the exact window.
    """
    from local_attention import LocalAttention

    return LocalAttention(
        window_size=width // 2,
        causal=False,
        look_backward=1,
        look_forward=1,
        exact_windowsize=True,
        use_rotary_pos_emb=False,
    )


def compiled(function: Callable, quick: bool) -> Callable:
    """torch.compile of a function; a fall back to eager mode is an error, not a slow
    result.
    """
    if quick:
        raise RuntimeError("--quick compiles nothing")
    return torch.compile(function, fullgraph=True, dynamic=False)


def block_mask(reads: Reads, n: int, block: int, device: str):
    """The BlockMask of a pattern, from one row of blocks at a time: no n x n grid; n is
    a multiple of block.
    """
    from torch.nn.attention.flex_attention import BlockMask

    j = torch.arange(n, device=device)
    rows = []
    for i in j.split(block):
        row = reads(i[:, None], j).view(block, -1, block)
        rows.append(row.sum((0, 2)))
    connections = torch.stack(rows)
    # Blocks that are full need not ask reads again.
    full = connections == block**2
    partly = (connections > 0) & ~full
    return BlockMask.from_kv_blocks(
        *_listed(partly),
        *_listed(full),
        BLOCK_SIZE=block,
        mask_mod=lambda b, h, i, j: reads(i, j),
    )


def _listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks each row of a boolean table has, and all places, theirs first;
    with the axes of batch and head that a BlockMask has.
    """
    many = blocks.sum(1)
    places = blocks.int().argsort(dim=1, descending=True, stable=True)
    return many.int()[None, None], places.int()[None, None]


def flex(reads: Reads, n: int, block: int, device: str, quick: bool) -> Peer:
    """Compiled flex attention with a mask built beforehand."""
    from torch.nn.attention.flex_attention import flex_attention

    kernel = compiled(flex_attention, quick)
    torch._dynamo.config.recompile_limit = 64
    mask = block_mask(reads, n, block, device)
    return lambda q, k, v: kernel(q, k, v, block_mask=mask)


def gather(index: Tensor, kept: Tensor) -> Peer:
    """Keys and values row by row, by their places (n, w); kept is False where a row has
    fewer than w.
    """

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scale = q.shape[-1] ** -0.5
        products = q.unsqueeze(-2) * k[..., index, :]
        logits = products.sum(-1) * scale
        del products  # the largest tensor, which nothing needs any more
        logits = logits.masked_fill(~kept, -torch.inf)
        p = torch.softmax(logits, -1)
        return (p.unsqueeze(-1) * v[..., index, :]).sum(-2)

    return run


def reformer(qk: Tensor, v: Tensor, bucket: int, rounds: int) -> Callable[[], Tensor]:
    """LSHAttention of the package reformer-pytorch: tokens of one bucket attend, pairs
    of several rounds count once.
    """
    from reformer_pytorch.reformer_pytorch import LSHAttention

    layer = LSHAttention(
        bucket_size=bucket,
        n_hashes=rounds,
        allow_duplicate_attention=False,
        attend_across_buckets=False,
    )
    layer.eval()
    return lambda: layer(qk, v)[0]
