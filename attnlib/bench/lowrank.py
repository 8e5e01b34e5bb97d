"""The job `lowrank`: Linformer and LSH attention beside the public packages of that
name, on the same work.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib.bench import _peers
from attnlib.bench.record import Record, compare
from attnlib.efficient import lsh_attention
from attnlib.lowrank import linformer_attention

HEADS, D, R, BUCKET, ROUNDS = 4, 64, 128, 64, 7


def linformer_layer(x: Tensor, w: dict[str, Tensor]) -> Tensor:
    """A layer of Linformer around linformer_attention: plain linear maps for queries,
    keys, values and outputs.
    """
    q, k, v = (
        F.linear(x, w[f"to_{name}.weight"]).unflatten(-1, (HEADS, D)).transpose(1, 2)
        for name in "qkv"
    )
    y = linformer_attention(q, k, v, w["proj_k"].T, w["proj_v"].T, check=False)
    return F.linear(y.transpose(1, 2).flatten(2), w["to_out.weight"], w["to_out.bias"])


def linformer(name: str, n: int, device: str, rounds: int) -> Record:
    """Our layer and LinformerSelfAttention of the package, with the same weights;
    without the package drawn ones.
    """
    torch.manual_seed(0)  # the package draws from the global generator
    theirs = _peers.linformer(n, HEADS * D, HEADS, R)
    if isinstance(theirs, str):
        shapes = {
            **{f"to_{a}.weight": (HEADS * D,) * 2 for a in ("q", "k", "v", "out")},
            "to_out.bias": (HEADS * D,),
            "proj_k": (n, R),
            "proj_v": (n, R),
        }
        w = {key: (torch.randn(shape) / 16).to(device) for key, shape in shapes.items()}
    else:
        theirs = theirs.to(device)
        w = dict(theirs.state_dict())
    x = torch.randn(1, n, HEADS * D).to(device)

    def linear():
        return [F.linear(x, w[f"to_{a}.weight"]) for a in ("q", "k", "v", "out")]

    runs = {
        "ours": lambda: linformer_layer(x, w),
        "linformer": theirs if isinstance(theirs, str) else lambda: theirs(x),
        "floor linear maps alone": linear,
    }
    truth = linformer_layer(x.double(), {key: t.double() for key, t in w.items()})
    sizes = {
        "n": n,
        "d": D,
        "heads": HEADS,
        "r": R,
        "compared": "the whole layer, with its four linear maps",
    }
    flop = 8 * n * (HEADS * D) ** 2 + 8 * HEADS * n * R * D
    with torch.no_grad():
        return compare(
            "lowrank",
            name,
            runs,
            device=device,
            rounds=rounds,
            sizes=sizes,
            flop=flop,
            truth=(truth,),
        )


def lsh(name: str, n: int, hashes: int, device: str, rounds: int) -> Record:
    """lsh_attention and LSHAttention of reformer-pytorch: the same buckets, rounds and
    chunks, without projections.
    """
    g, at = torch.Generator().manual_seed(0), torch.Generator(device).manual_seed(0)
    qk, v = (torch.randn(HEADS, n, D, generator=g).to(device) for _ in range(2))
    theirs = _peers.reformer(BUCKET, hashes)

    def ours():
        return lsh_attention(
            qk,
            v,
            buckets=n // BUCKET,
            rounds=hashes,
            chunk=BUCKET,
            generator=at,
            check=False,
        )

    runs = {
        "ours": ours,
        "reformer-pytorch": theirs
        if isinstance(theirs, str)
        else lambda: theirs(qk, v),
    }
    sizes = {
        "n": n,
        "d": D,
        "heads": HEADS,
        "rounds of hashing": hashes,
        "buckets": n // BUCKET,
        "compared": "time only",
    }
    flop = HEADS * hashes * (n * D * (n // BUCKET) + 8 * n * BUCKET * D)
    with torch.no_grad():
        return compare(
            "lowrank", name, runs, device=device, rounds=rounds, sizes=sizes, flop=flop
        )


def cases(device: str, quick: bool) -> dict[str, Callable[[], Record]]:
    """What is measured: names, and how."""
    sizes, rounds = ((256,), 2) if quick else ((1024, 4096), ROUNDS)
    found: dict[str, Callable[[], Record]] = {}
    for n in sizes:
        name = f"Linformer layer, n = {n}, r = {R}"
        found[name] = lambda name=name, n=n: linformer(name, n, device, rounds)
    for n in sizes:
        for hashes in (1, 4):
            name = f"LSH, n = {n}, rounds of hashing: {hashes}, time only"
            found[name] = lambda name=name, n=n, hashes=hashes: lsh(
                name, n, hashes, device, rounds
            )
    return found
