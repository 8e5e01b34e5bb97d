"""The job `lowrank`: LSH attention beside the public package, on the same work."""

from __future__ import annotations

from functools import partial

import torch

from attnbook.data.timings import Record
from attnlib.efficient import lsh_attention
from bench import _peers
from bench.record import Cases, compare

HEADS = 4
D = 64
BUCKET = 64  # tokens


def measure(name: str, n: int, hashes: int, device: str, rounds: int) -> Record:
    """lsh_attention and LSHAttention of reformer-pytorch: the same buckets, rounds and
    chunks, without projections. They hash at random: only times are compared.
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
            sizes={"n": n, "d": D, "heads": HEADS, "rounds of hashing": hashes},
            flop=HEADS * hashes * (hashing + attending),
        )


def cases(device: str, quick: bool) -> Cases:
    """What is measured: names, and how."""
    found = {}
    for n in (256,) if quick else (1024, 4096):
        for hashes in (1, 4):
            name = f"LSH, n = {n}, rounds of hashing: {hashes}, time only"
            rounds = 2 if quick else 7
            found[name] = partial(measure, name, n, hashes, device, rounds)
    return found
