"""The peers from elsewhere, each made here, or a text that says why it is not run. A
Peer takes (1, heads, n, d).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib import import_module

import torch
from torch import Tensor
from torch.nn import functional as F

Peer = Callable[[Tensor, Tensor, Tensor], Tensor]
Reads = Callable[[Tensor, Tensor], Tensor]  # whether query i reads key j
QUICK = "not run: --quick compiles nothing"


def masked(mask: Tensor) -> Peer:
    """SDPA with an n x n mask."""
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def longformer(width: int) -> Peer | str:
    """The sliding chunks of Longformer as transformers has them: scores, softmax,
    values, without its projections.
    """
    try:
        module = import_module("transformers.models.longformer.modeling_longformer")
    except ImportError:
        return "not run: transformers is not installed"
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


def local(width: int) -> Peer | str:
    """The package local-attention: buckets of half a window, one back and one ahead,
    cut to the exact window.
    """
    try:
        module = import_module("local_attention")
    except ImportError:
        return "not run: local-attention is not installed"
    made = module.LocalAttention(
        window_size=width // 2,
        causal=False,
        look_backward=1,
        look_forward=1,
        exact_windowsize=True,
        use_rotary_pos_emb=False,
    )
    return lambda q, k, v: made(q, k, v)


def no_compiler(device: str, capability: tuple[int, int] | None = None) -> str:
    """Why nothing is compiled here, '' if it can be."""
    if device == "cpu":
        found = shutil.which("g++") or shutil.which("clang++")
        return "" if found else "not run: it needs a C++ compiler"
    if capability is None:
        capability = torch.cuda.get_device_capability()
    if capability >= (8, 0):
        return ""
    has = ".".join(map(str, capability))
    return f"not run: it needs compute capability 8.0, this is {has}"


def _refusal(device: str, quick: bool) -> str:
    """Why this run compiles nothing, '' if it does."""
    return QUICK if quick else no_compiler(device)


def compiled(function: Callable, device: str, quick: bool) -> Callable | str:
    """torch.compile of a function; a fall back to eager mode is an error, not a slow
    result.
    """
    if refusal := _refusal(device, quick):
        return refusal
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


def flex(
    reads: Reads,
    n: int,
    block: int,
    device: str,
    quick: bool = False,
) -> Peer | str:
    """Compiled flex attention with a mask built beforehand."""
    if refusal := _refusal(device, quick):
        return refusal
    from torch.nn.attention.flex_attention import flex_attention

    torch._dynamo.config.recompile_limit = 64
    mask = block_mask(reads, n, block, device)
    kernel = compiled(flex_attention, device, False)
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


def keops(q: Tensor, k: Tensor, device: str, quick: bool):
    """All logits q k' as a LazyTensor of KeOps, which holds no matrix and compiles its
    reductions; or why not.
    """
    if refusal := _refusal(device, quick):
        return refusal
    try:
        lazy = import_module("pykeops.torch").LazyTensor
    except ImportError:
        return "not run: pykeops is not installed"
    rows = lazy(q[:, None].contiguous())
    columns = lazy(k[None].contiguous())
    return (rows * columns).sum(-1)


def linformer(n: int, d: int, heads: int, r: int) -> torch.nn.Module | str:
    """LinformerSelfAttention of the package linformer, with its projections of queries,
    keys, values and outputs.
    """
    try:
        module = import_module("linformer")
    except ImportError:
        return "not run: linformer is not installed"
    layer = module.LinformerSelfAttention(d, n, k=r, heads=heads)
    return layer.eval().requires_grad_(False)


def reformer(bucket: int, rounds: int) -> Callable[[Tensor, Tensor], Tensor] | str:
    """LSHAttention of the package reformer-pytorch: tokens of one bucket attend, pairs
    of several rounds count once.
    """
    try:
        module = import_module("reformer_pytorch.reformer_pytorch")
    except ImportError:
        return "not run: reformer-pytorch is not installed"
    how = {"allow_duplicate_attention": False, "attend_across_buckets": False}
    made = module.LSHAttention(bucket_size=bucket, n_hashes=rounds, **how)
    made.eval()
    return lambda qk, v: made(qk, v)[0]
