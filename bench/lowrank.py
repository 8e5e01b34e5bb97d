"""The job `lowrank`: Linformer and LSH attention beside the public packages of that
name, on the same work.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from attnbook.data.timings import Record
from attnlib.efficient import lsh_attention
from attnlib.lowrank import linformer_attention
from bench import _peers
from bench.record import Cases, compare

HEADS = 4
D = 64
R = 128  # mixtures of Linformer
BUCKET = 64  # tokens
ROUNDS = 7


def linformer_layer(x: Tensor, w: dict[str, Tensor]) -> Tensor:
    """A layer of Linformer around linformer_attention: plain linear maps for queries,
    keys, values and outputs.
    """

    def heads(name: str) -> Tensor:
        mapped = F.linear(x, w[f"to_{name}.weight"])
        return mapped.unflatten(-1, (HEADS, D)).transpose(1, 2)

    q = heads("q")
    k = heads("k")
    v = heads("v")
    e = w["proj_k"].T
    f = w["proj_v"].T
    y = linformer_attention(q, k, v, e, f, check=False)
    y = y.transpose(1, 2).flatten(2)
    return F.linear(y, w["to_out.weight"], w["to_out.bias"])


def drawn_weights(n: int, r: int = R) -> dict[str, Tensor]:
    """Weights of a layer by the names that the package gives them."""
    g = torch.Generator().manual_seed(0)
    width = HEADS * D
    shapes = {
        "to_q.weight": (width, width),
        "to_k.weight": (width, width),
        "to_v.weight": (width, width),
        "to_out.weight": (width, width),
        "to_out.bias": (width,),
        "proj_k": (n, r),
        "proj_v": (n, r),
    }
    return {
        name: torch.randn(shape, generator=g) / 16 for name, shape in shapes.items()
    }


def linformer(name: str, n: int, device: str, rounds: int) -> Record:
    """Our layer and LinformerSelfAttention of the package, with the same weights."""
    g = torch.Generator().manual_seed(1)
    x = torch.randn(1, n, HEADS * D, generator=g).to(device)
    w = {name: t.to(device) for name, t in drawn_weights(n).items()}

    def linear_maps() -> list[Tensor]:
        return [F.linear(x, w[f"to_{name}.weight"]) for name in ("q", "k", "v", "out")]

    runs = {
        "ours": partial(linformer_layer, x, w),
        "floor linear maps alone": linear_maps,
    }
    in_double = {name: t.double() for name, t in w.items()}
    sizes = {
        "n": n,
        "d": D,
        "heads": HEADS,
        "r": R,
        "compared": "the whole layer, with its four linear maps",
    }
    linear = 8 * n * (HEADS * D) ** 2
    attending = 8 * HEADS * n * R * D
    with torch.no_grad():
        return compare(
            "lowrank",
            name,
            runs,
            {"linformer": partial(_peers.linformer, x, w, HEADS)},
            device=device,
            rounds=rounds,
            sizes=sizes,
            flop=linear + attending,
            truth=(linformer_layer(x.double(), in_double),),
        )


def lsh(name: str, n: int, hashes: int, device: str, rounds: int) -> Record:
    """lsh_attention and LSHAttention of reformer-pytorch: the same buckets, rounds and
    chunks, without projections.
    """
    g = torch.Generator().manual_seed(0)
    qk = torch.randn(HEADS, n, D, generator=g).to(device)
    v = torch.randn(HEADS, n, D, generator=g).to(device)
    buckets = n // BUCKET
    ours = partial(
        lsh_attention,
        qk,
        v,
        buckets=buckets,
        rounds=hashes,
        chunk=BUCKET,
        generator=torch.Generator(device).manual_seed(0),
        check=False,
    )
    sizes = {
        "n": n,
        "d": D,
        "heads": HEADS,
        "rounds of hashing": hashes,
        "buckets": buckets,
        "compared": "time only",
    }
    hashing = n * D * buckets
    attending = 8 * n * BUCKET * D
    with torch.no_grad():
        return compare(
            "lowrank",
            name,
            {"ours": ours},
            {"reformer-pytorch": partial(_peers.reformer, qk, v, BUCKET, hashes)},
            device=device,
            rounds=rounds,
            sizes=sizes,
            flop=HEADS * hashes * (hashing + attending),
        )


def cases(device: str, quick: bool) -> Cases:
    """What is measured: names, and how."""
    sizes = (256,) if quick else (1024, 4096)
    rounds = 2 if quick else ROUNDS
    found = {}
    for n in sizes:
        name = f"Linformer layer, n = {n}, r = {R}"
        found[name] = partial(linformer, name, n, device, rounds)
    for n in sizes:
        for hashes in (1, 4):
            name = f"LSH, n = {n}, rounds of hashing: {hashes}, time only"
            found[name] = partial(lsh, name, n, hashes, device, rounds)
    return found
