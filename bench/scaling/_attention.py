"""Kernels on whole sequences: attention, paths, collapse, low rank, products of
features, hashing, sparse patterns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

from attnlib import collapse, efficacy, efficient, lowrank, paths, patterns, sparse
from attnlib.attention import (
    Mlp,
    Norm,
    attention_matrix,
    feed_forward,
    forward,
    layer_norm,
    random_layers,
    sparsemax,
)
from attnlib.patterns import Strided, Window, build
from bench.scaling._kernel import Axis, Kernel, doubled, drawn, source
from bench.sparse import big_bird

P = "it forms P, which is n x n by definition"
TAKES_P = "it takes P, which is n x n by definition"
ONE = {"N": 1, "H": 1, "n": 512, "d": 32}
STACK = {"N": 1, "L": 2, "H": 2, "n": 128, "d": 32}


def _matrix(device: str, *, N: int, H: int, n: int, d: int) -> Callable:
    heads = (H, d, 16)
    x, w_q, w_k = drawn(device, (N, n, d), heads, heads)
    return partial(attention_matrix, x, w_q / d**0.5, w_k, check=False)


def _stack(
    kernel: Callable, given: bool = False, dtype=torch.float32, **words
) -> Callable:
    """kernel(x, layers, **words) on L layers of H heads of width 16; given: P is
    computed beforehand.
    """

    def make(device: str, *, N: int, L: int, H: int, n: int, d: int) -> Callable:
        g = torch.Generator().manual_seed(0)
        layers = random_layers(
            L, H, d, 16, generator=g, gain=0.5, dtype=dtype, device=device
        )
        (x,) = drawn(device, (N, n, d), dtype=dtype)
        run = partial(kernel, x, layers, **words)
        if not given:
            return run
        _, attention = forward(x, layers, skip=True, return_attention=True, check=False)
        return partial(run, attention=attention)

    return make


def _norms(x, layers) -> paths.PathNorms:
    g = source(x.device.type)
    return paths.path_norms(x, layers, signs=4, generator=g, skip=True)


def _feed_forward(device: str, *, n: int, d: int) -> Callable:
    x, up, down = drawn(device, (n, d), (d, 64), (64, d))
    return partial(feed_forward, x, Mlp(up, down), check=False)


def _layer_norm(device: str, *, n: int, d: int) -> Callable:
    x, gain = drawn(device, (n, d), (d,))
    return partial(layer_norm, x, Norm(gain), check=False)


def _qkv(kernel: Callable, **words) -> Callable:
    """kernel(q, k, v, **words); a word that is a function is asked for its value at
    n.
    """

    def make(device: str, *, N: int, H: int, n: int, d: int) -> Callable:
        heads = (N, H, n, d)
        q, k, v = drawn(device, heads, heads, heads)
        own = {}
        for name, value in words.items():
            own[name] = value(n) if callable(value) else value
        return partial(kernel, q, k, v, **own)

    return make


def _linformer(device: str, *, N: int, H: int, n: int, d: int) -> Callable:
    heads = (N, H, n, d)
    mixtures = (64, n)
    q, k, v, e, f = drawn(device, heads, heads, heads, mixtures, mixtures)
    return partial(lowrank.linformer_attention, q, k, v, e, f, check=False)


def _performer(q, k, v) -> torch.Tensor:
    g = source(q.device.type)
    return efficient.performer_attention(q, k, v, features=64, generator=g, check=False)


def _hashed(q, k, v) -> torch.Tensor:
    g = source(q.device.type)
    return efficient.lsh_attention(
        q, v, buckets=16, rounds=2, chunk=32, generator=g, check=False
    )


def _gates(q) -> torch.Tensor:
    """A gate a token."""
    return torch.sigmoid(q[..., 0])


def _gated(q, k, v) -> tuple[torch.Tensor, torch.Tensor]:
    return efficient.gated_linear_attention(q, k, v, _gates(q), check=False)


def _delta(q, k, v) -> tuple[torch.Tensor, torch.Tensor]:
    return efficient.delta_attention(q, k / k.shape[-1], v, _gates(q), check=False)


def _scan(device: str, *, N: int, H: int, n: int, d: int) -> Callable:
    states = (N, n, 16)
    x, a, b, c = drawn(device, (N, n, H * d), (N, n, H * d, 16), states, states)
    return partial(efficient.selective_scan, x, torch.sigmoid(a), b, c, check=False)


def _buckets(q, k, v) -> torch.Tensor:
    return efficient.lsh_buckets(q, 64, generator=source(q.device.type))


def _sparse(pattern: Callable[[int], patterns.Pattern]) -> Callable:
    return _qkv(partial(sparse.sparse_attention, check=False), pattern=pattern)


def _root(n: int) -> int:
    """A power of two near the root of n."""
    return 2 ** round(math.log2(n) / 2)


def _window(n: int) -> patterns.Pattern:
    return patterns.window(n, 33)


def _strided(n: int) -> patterns.Pattern:
    l = _root(n)
    return build(n, [Window(l // 2, l // 2), Strided(l)])


def _random(n: int) -> patterns.Pattern:
    return patterns.random(n, 8, generator=source("cpu"))


def _blocks(n: int) -> patterns.Pattern:
    return big_bird(n, 32, generator=source("cpu"))


def _product(kernel: Callable) -> Callable:
    """kernel(p, v) on a matrix of attention."""

    def make(device: str, *, n: int, d: int) -> Callable:
        p, v = drawn(device, (n, n), (n, d))
        return partial(kernel, torch.softmax(p, -1), v)

    return make


def _surrogate(p, v) -> torch.Tensor:
    g = source(p.device.type)
    return lowrank.jl_surrogate(p, 32, generator=g)


def _best(p, v) -> torch.Tensor:
    return lowrank.svd_surrogate(p, 8)


def _range(p, v) -> torch.Tensor:
    g = source(p.device.type)
    return lowrank.svd_surrogate(p, 8, oversample=8, generator=g)


def _sampled(p, v) -> torch.Tensor:
    g = source(p.device.type)
    return lowrank.sampled_product(p, v, 32, generator=g, check=False)


def _sparsemax(device: str, *, N: int, n: int) -> Callable:
    (a,) = drawn(device, (N, n))
    return partial(sparsemax, a)


def _batch(
    first: int,
    time: float | int,
    memory: float | int,
    why: str,
    *,
    wide: int = 256,
    d_memory: int = 1,
    d_time: int = 1,
    by: int = 2,
    n: int = 512,
) -> dict:
    """The axes of a kernel on (N, H, n, d): n as given; width, heads and sequences side
    by side.
    """
    lengths = tuple(first * by**i for i in range(4))
    few = doubled(4, 3)
    beside = "heads and sequences lie side by side"
    return {
        "n": Axis(lengths, time, memory, why),
        "d": Axis(doubled(wide), d_time, d_memory, "all products are along d"),
        "H": Axis(few, 1, 1, beside, {"n": n}),
        "N": Axis(few, 1, 1, beside, {"n": n}),
    }


def _layers(why: str, L: tuple[int, int], words: str) -> dict:
    """The axes of a kernel on a stack: n^2 tokens; layers as given."""
    few = doubled(4, 3)
    small = {"n": 32, "L": 2}
    return {
        "n": Axis(doubled(128), 2, 2, why),
        "L": Axis(doubled(4), *L, words),
        "H": Axis(few, 1, 1, "P of each head"),
        "N": Axis(few, 1, 1, "sequences lie side by side"),
        "d": Axis(doubled(512), 1, 1, "d_qk = 16 stands still", small),
    }


KERNELS = [
    Kernel(
        "attention_matrix",
        "attention.attention_matrix",
        _matrix,
        ONE,
        {
            "n": Axis(doubled(128), 2, 2, "every pair of tokens"),
            "H": Axis(doubled(4, 3), 1, 1, "P of each head", {"n": 256}),
            "N": Axis(doubled(4, 3), 1, 1, "P of each sequence", {"n": 256}),
            "d": Axis(
                doubled(2048),
                1,
                0,
                "d_qk = 16 stands still, P does not grow",
                {"n": 64},
            ),
        },
        dense="it returns P, which is n x n by definition",
    ),
    Kernel(
        "forward",
        "attention.forward",
        _stack(partial(forward, skip=True, check=False)),
        STACK,
        _layers("P of each layer", (1, 0), "one P at a time"),
        dense=P,
    ),
    Kernel(
        "feed_forward",
        "attention.feed_forward",
        _feed_forward,
        {"n": 512, "d": 64},
        {
            "n": Axis(doubled(2048), 1, 1, "token by token"),
            "d": Axis(doubled(256), 1, 1, "m = 64 stands still"),
        },
    ),
    Kernel(
        "layer_norm",
        "attention.layer_norm",
        _layer_norm,
        {"n": 512, "d": 64},
        {
            "n": Axis(doubled(1024), 1, 1, "token by token"),
            "d": Axis(doubled(512), 1, 1, "O(n d)", {"n": 128}),
        },
    ),
    Kernel(
        "sparsemax",
        "attention.sparsemax",
        _sparsemax,
        {"N": 16, "n": 1024},
        {
            "n": Axis(doubled(1024), 1, 1, "sorting a row: n log n"),
            "N": Axis(doubled(16), 1, 1, "row by row"),
        },
    ),
    Kernel(
        "path_sums",
        "paths.path_sums",
        _stack(partial(paths.path_sums, skip=True, check=False)),
        STACK,
        _layers("P of each layer", (2, 1), "(L + 1)/2 forward passes; every P is kept"),
        dense=P,
    ),
    Kernel(
        "path_sums, P given",
        "paths.path_sums",
        _stack(partial(paths.path_sums, skip=True, check=False), given=True),
        {**STACK, "d": 64},
        {
            "n": Axis(doubled(256), 2, 1, "products with P; sums are L n d"),
            "L": Axis(doubled(4), 2, 1, "(L + 1)/2 forward passes"),
        },
    ),
    Kernel(
        "path_norms",
        "paths.path_norms",
        _stack(_norms),
        STACK,
        _layers("P of each layer, 4 signs", (2, 1), "as path_sums, a few draws"),
        dense=P,
    ),
    Kernel(
        "log_residuals",
        "collapse.log_residuals",
        _stack(collapse.log_residuals, dtype=torch.float64),
        STACK,
        _layers("as forward, ten exponentials for one", (1, 0), "one P at a time"),
        dense=P,
    ),
    Kernel(
        "log_bound",
        "collapse.log_bound",
        _stack(collapse.log_bound),
        {**STACK, "n": 32},
        {
            "d": Axis(
                doubled(128), 2, 2, "|W_QK| and |W_h| are d x d, d_qk = 16 stands still"
            ),
            "L": Axis(doubled(4), 1, 0, "layer by layer"),
        },
    ),
    Kernel(
        "length_bounds",
        "efficacy.length_bounds",
        _stack(efficacy.length_bounds, given=True),
        {**STACK, "n": 32},
        {
            "n": Axis(doubled(64), 3, 2, "singular values of each P"),
            "L": Axis(doubled(2), 1, 0, "layer by layer"),
        },
        dense=TAKES_P,
    ),
    Kernel(
        "jl_surrogate",
        "lowrank.jl_surrogate",
        _product(_surrogate),
        {"n": 512, "d": 32},
        {"n": Axis(doubled(256), 2, 2, "m n k with m = n")},
        dense=TAKES_P,
    ),
    Kernel(
        "svd_surrogate, exact",
        "lowrank.svd_surrogate",
        _product(_best),
        {"n": 64, "d": 32},
        {"n": Axis(doubled(64), 3, 2, "m n min(m, n)")},
        dense=TAKES_P,
    ),
    Kernel(
        "svd_surrogate, randomised",
        "lowrank.svd_surrogate",
        _product(_range),
        {"n": 512, "d": 32},
        {"n": Axis(doubled(256), 2, 2, "m n (k + oversample)")},
        dense=TAKES_P,
    ),
    Kernel(
        "sampled_product",
        "lowrank.sampled_product",
        _product(_sampled),
        {"n": 512, "d": 32},
        {
            "n": Axis(
                doubled(256), 2, 1, "the chances look at all of P; 32 columns are kept"
            ),
            "d": Axis(doubled(1024), 1, 1, "k rows of V", {"n": 256}),
        },
    ),
    Kernel(
        "linformer_attention",
        "lowrank.linformer_attention",
        _linformer,
        ONE,
        _batch(1024, 1, 1, "r = 64 mixtures", wide=256),
    ),
    Kernel(
        "nystrom_attention",
        "lowrank.nystrom_attention",
        _qkv(partial(lowrank.nystrom_attention, landmarks=32, check=False)),
        ONE,
        _batch(4096, 1, 1, "m = 32 landmarks", wide=512),
    ),
    Kernel(
        "linear_attention",
        "efficient.linear_attention",
        _qkv(partial(efficient.linear_attention, check=False)),
        ONE,
        _batch(2048, 1, 1, "4 n d (d_v + 1)", wide=128, d_time=2),
    ),
    Kernel(
        "linear_attention, causal",
        "efficient.linear_attention",
        _qkv(partial(efficient.linear_attention, causal=True, check=False)),
        ONE,
        _batch(1024, 1, 1, "chunks of 64", wide=64, d_time=2, d_memory=2),
    ),
    Kernel(
        "performer_attention",
        "efficient.performer_attention",
        _qkv(_performer),
        ONE,
        _batch(1024, 1, 1, "64 features"),
    ),
    Kernel(
        "gated_linear_attention",
        "efficient.gated_linear_attention",
        _qkv(_gated),
        ONE,
        _batch(1024, 1, 1, "chunks of 64", wide=64, d_time=2, d_memory=2),
    ),
    Kernel(
        "delta_attention",
        "efficient.delta_attention",
        _qkv(_delta),
        ONE,
        _batch(1024, 1, 1, "chunks of 64", wide=64, d_time=2, d_memory=2),
    ),
    Kernel(
        "selective_scan",
        "efficient.selective_scan",
        _scan,
        ONE,
        _batch(1024, 1, 1, "16 states a channel"),
    ),
    Kernel(
        "nystrom_attention, 6 steps",
        "lowrank.nystrom_attention",
        _qkv(
            partial(lowrank.nystrom_attention, landmarks=32, iterations=6, check=False)
        ),
        ONE,
        _batch(4096, 1, 1, "m = 32 landmarks", wide=512),
    ),
    Kernel(
        "lsh_attention",
        "efficient.lsh_attention",
        _qkv(_hashed),
        ONE,
        _batch(1024, 1, 1, "chunks of 32, two rounds"),
    ),
    Kernel(
        "lsh_buckets",
        "efficient.lsh_buckets",
        _qkv(_buckets),
        ONE,
        _batch(4096, 1, 1, "64 buckets; R is d x 32", wide=1024),
    ),
    Kernel(
        "sparse_attention, window",
        "sparse.sparse_attention",
        _sparse(_window),
        ONE,
        _batch(4096, 1, 1, "4 d connections, 33 a row", n=2048),
    ),
    Kernel(
        "sparse_attention, strided",
        "sparse.sparse_attention",
        _sparse(_strided),
        ONE,
        _batch(256, 1.5, 1, "2 sqrt(n) connections a row", by=4, n=2048),
    ),
    Kernel(
        "sparse_attention, BigBird by blocks",
        "sparse.sparse_attention",
        _sparse(_blocks),
        ONE,
        _batch(1024, 1, 1, "six blocks a row; one row of blocks reads all", n=1024),
    ),
    Kernel(
        "sparse_attention, random sets",
        "sparse.sparse_attention",
        _sparse(_random),
        ONE,
        _batch(1024, 1, 1, "nine connections a row", n=1024),
    ),
    Kernel(
        "masked_attention",
        "sparse.masked_attention",
        _qkv(sparse.masked_attention),
        ONE,
        _batch(128, 2, 2, "every pair of tokens"),
        dense="it is the dense form of every mask",
    ),
]
