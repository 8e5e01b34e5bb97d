"""Linformer against dense attention on one task and one budget: python
book/_experiments/train_linformer.py

About 20 CPU minutes with one thread. Masked characters of Python's library, passages of
128 characters, two layers, four heads, width 64; the attention is the only thing that
differs. Three seeds a setting, 900 steps a run: a small experiment. Stored as
book/attnbook/data/results/linformer.json.
"""

from __future__ import annotations

import argparse
import time

import store
import torch
from torch import Tensor, nn
from tqdm import tqdm
from train_tiny_model import HELD_OUT, TRAINED_ON, masked_loss, read

from attnlib.audit.tiny import TinyBlock, TinyModel
from attnlib.lowrank import linformer_attention

SIZES = {"layers": 2, "heads": 4, "width": 64}
N, BATCH, STEPS, RATE = 128, 16, 900, 4e-3
KINDS = ["none", 8, 16, 32, 64, "dense"]


class Compressed(TinyBlock):
    """A block whose keys and values are compressed to r mixtures, one E and one F a
    layer, for all heads.
    """

    def __init__(self, heads: int, width: int, r: int, generator: torch.Generator):
        super().__init__(heads, width)
        self.e, self.f = (
            nn.Parameter(torch.randn(r, N, generator=generator) / N**0.5)
            for _ in range(2)
        )

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Linformer in place of dense attention."""
        return linformer_attention(q, k, v, self.e, self.f, check=False)


class Silent(TinyBlock):
    """A block without attention: what can be had from each character alone."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Nothing."""
        return torch.zeros_like(v)


def network(kind: int | str, seed: int) -> TinyModel:
    """The same first weights for each kind, besides E and F."""
    model, g = TinyModel(**SIZES, seed=seed), torch.Generator().manual_seed(1000 + seed)
    if kind != "dense":
        for number, block in enumerate(model.blocks):
            other = (
                Silent(SIZES["heads"], SIZES["width"])
                if kind == "none"
                else Compressed(SIZES["heads"], SIZES["width"], kind, g)
            )
            other.load_state_dict(block.state_dict(), strict=False)
            model.blocks[number] = other
    return model


@torch.no_grad()
def held_out_loss(model: TinyModel, passages: Tensor) -> float:
    """The loss on the modules held out, places chosen by a fixed seed."""
    return float(
        masked_loss(model, passages, generator=torch.Generator().manual_seed(1))
    )


def train(
    kind: int | str, seed: int, text: Tensor, passages: Tensor, steps: int
) -> list[float]:
    """The loss on the modules held out at every tenth of the run; the same batches for
    each kind.
    """
    model, g, curve = network(kind, seed), torch.Generator().manual_seed(seed), []
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01
    )
    for step in range(1, steps + 1):
        done = torch.tensor(torch.pi * step / steps)
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, step / 100) * 0.5 * (1 + torch.cos(done).item())
        starts = torch.randint(len(text) - N, (BATCH,), generator=g)
        loss = masked_loss(
            model, torch.stack([text[s : s + N] for s in starts]), generator=g
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % (steps // 10) == 0:
            curve.append(round(held_out_loss(model, passages), 4))
    return curve


def main() -> None:
    """All kinds, all seeds; the result holds a curve for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dry", action="store_true", help="print, store nothing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    began, text, other = time.process_time(), read(TRAINED_ON), read(HELD_OUT)
    passages = other[: len(other) // N * N].view(-1, N)
    curves: dict[str, list[list[float]]] = {str(kind): [] for kind in KINDS}
    for seed in tqdm(range(args.seeds)):
        for kind in KINDS:
            curves[str(kind)].append(train(kind, seed, text, passages, args.steps))
            print(
                seed,
                kind,
                curves[str(kind)][-1],
                f"{time.process_time() - began:.0f} s",
                flush=True,
            )
    settings = {
        **SIZES,
        "n": N,
        "batch": BATCH,
        "steps": args.steps,
        "rate": RATE,
        "seeds": args.seeds,
        "held_out": HELD_OUT,
        "loss": "nats a hidden character",
        "curve": "at every tenth of the steps",
    }
    if not args.dry:
        store.write(
            "linformer", curves, settings=settings, seconds=time.process_time() - began
        )


if __name__ == "__main__":
    main()
