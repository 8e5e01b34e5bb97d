"""Are trained attention maps sparse, and do they change with the input?

    python book/_experiments/premise.py [--quick]

Three small models on data that packages ship: the character model of attnlib (Python
source, masked), a word model (the texts of Python's own help, masked), and a model that
reads digits (scikit-learn's 8 x 8 images, a token a pixel). The last two are trained
here, a quarter of an hour on one thread; scikit-learn is needed, nothing is fetched.

Of each head, on inputs held out of the training: the share of a row's entries that
holds 90% of its mass, and how much of these entries two inputs share (intersection over
union, the mean over rows and pairs of inputs). Controls: the weights that the training
began with; and the overlap of random places, as many in each row.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter

import store
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.audit.tiny import CHARACTERS, TinyBlock, encode, load_tiny_model

MASS = 0.9
INPUTS = 24
LAYERS, HEADS, WIDTH = 3, 4, 64
WORDS = {"n": 128, "batch": 16, "steps": 2000, "rate": 2e-3, "vocabulary": 2000}
DIGITS = {"n": 64, "batch": 64, "steps": 1500, "rate": 2e-3, "held_out": 297}


class Reader(nn.Module):
    """Blocks of the character model over tokens of any kind.

    A word is embedded by its number, a pixel by its grey and its place. The read-out is
    a word for each place, or one label for all places.
    """

    def __init__(self, embed: nn.Module, labels: int, *, places: int = 0):
        super().__init__()
        self.embed = embed
        self.places = nn.Parameter(0.1 * torch.randn(places, WIDTH)) if places else None
        self.blocks = nn.ModuleList(TinyBlock(HEADS, WIDTH) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.read = nn.Linear(WIDTH, labels)

    def states(self, inputs: Tensor) -> list[Tensor]:
        """What each block reads, and what the last one writes."""
        x = self.embed(inputs)
        if self.places is not None:
            x = x + self.places
        found = [x]
        for block in self.blocks:
            x = block(x)
            found.append(x)
        return found

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of the words, or of the label."""
        x = self.norm(self.states(inputs)[-1])
        if self.places is not None:
            x = x.mean(-2)
        return self.read(x)

    def maps(self, inputs: Tensor) -> Tensor:
        """The attention maps, (layers, inputs, heads, n, n)."""
        found = []
        for block, x in zip(self.blocks, self.states(inputs)):
            q, k, _ = block.heads(block.norm_1(x))
            found.append(torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1))
        return torch.stack(found)


def optimise(model: nn.Module, loss_of, settings: dict, steps: int) -> None:
    """AdamW with a warm-up and a cosine."""
    optimiser = torch.optim.AdamW(model.parameters(), settings["rate"])
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, settings["rate"], total_steps=steps, pct_start=0.1
    )
    for _ in range(steps):
        optimiser.zero_grad()
        loss_of().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()


def help_texts() -> tuple[Tensor, Tensor, int]:
    """Python's help as numbers of words: to train on, and held out by whole texts."""
    from pydoc_data.topics import topics

    texts = [re.findall(r"[a-z]+|[^a-z\s]", text.lower()) for text in topics.values()]
    kept = [text for number, text in enumerate(texts) if number % 8]
    away = [text for number, text in enumerate(texts) if number % 8 == 0]
    common = Counter(word for text in kept for word in text)
    size = WORDS["vocabulary"]
    number = {word: i for i, (word, _) in enumerate(common.most_common(size))}

    def numbers(texts: list[list[str]]) -> Tensor:
        return torch.tensor([number.get(word, size) for text in texts for word in text])

    return numbers(kept), numbers(away), size + 2  # others, and the mask


def words(steps: int, seed: int) -> tuple[Reader, Reader, Tensor, dict]:
    """The word model, as it began, inputs held out, and how well it does."""
    kept, away, size = help_texts()
    n, batch = WORDS["n"], WORDS["batch"]
    g = torch.Generator().manual_seed(seed)
    embed = nn.Embedding(size, WIDTH)
    nn.init.normal_(embed.weight, std=0.1)
    model = Reader(embed, size)
    began = Reader(nn.Embedding(size, WIDTH), size)
    began.load_state_dict(model.state_dict())

    def loss_on(text: Tensor) -> Tensor:
        hidden = torch.rand(text.shape, generator=g) < 0.15
        logits = model(text.masked_fill(hidden, size - 1))
        return F.cross_entropy(logits[hidden], text[hidden])

    def loss() -> Tensor:
        starts = torch.randint(len(kept) - n, (batch,), generator=g)
        return loss_on(torch.stack([kept[start : start + n] for start in starts]))

    optimise(model, loss, WORDS, steps)
    passages = away[: len(away) // n * n].view(-1, n)
    with torch.no_grad():
        held = float(loss_on(passages))
    count = torch.bincount(kept, minlength=size) + 1.0
    frequencies = (count / count.sum()).log()
    alone = float(-frequencies[passages].mean())
    scores = {"loss": round(held, 3), "loss by frequency alone": round(alone, 3)}
    chosen = torch.linspace(0, len(passages) - 1, INPUTS).long()
    return model, began, passages[chosen], scores


def digits(steps: int, seed: int) -> tuple[Reader, Reader, Tensor, dict]:
    """The model of digits, as it began, inputs held out, and how well it does."""
    data = load_digits()
    images = torch.tensor(data.images / 16, dtype=torch.float32).flatten(1)[..., None]
    labels = torch.tensor(data.target)
    cut = len(images) - DIGITS["held_out"]
    g = torch.Generator().manual_seed(seed)
    model = Reader(nn.Linear(1, WIDTH), 10, places=DIGITS["n"])
    began = Reader(nn.Linear(1, WIDTH), 10, places=DIGITS["n"])
    began.load_state_dict(model.state_dict())

    def loss() -> Tensor:
        chosen = torch.randint(cut, (DIGITS["batch"],), generator=g)
        return F.cross_entropy(model(images[chosen]), labels[chosen])

    optimise(model, loss, DIGITS, steps)
    with torch.no_grad():
        right = (model(images[cut:]).argmax(-1) == labels[cut:]).double().mean()
    chosen = torch.linspace(cut, len(images) - 1, INPUTS).long()
    return model, began, images[chosen], {"right": round(float(right), 3)}


def needed(maps: Tensor) -> Tensor:
    """The entries that hold MASS of each row, the largest first: a mask."""
    values, order = maps.sort(-1, descending=True)
    before = values.cumsum(-1) - values
    return torch.zeros_like(maps, dtype=torch.bool).scatter(-1, order, before < MASS)


def overlap(held: Tensor) -> Tensor:
    """How much of their entries neighbouring inputs share, a number for each head."""
    one, other = held[:, 1:], held[:, :-1]
    common = (one & other).sum(-1)
    either = (one | other).sum(-1)
    return (common / either).double().mean((1, 3))


def measure(maps: Tensor) -> dict[str, list[list[float]]]:
    """Share and overlap of each head, (layers, heads), and the overlap of chance."""
    held = needed(maps)
    g = torch.Generator().manual_seed(0)
    moved = torch.rand(held.shape, generator=g).argsort(-1)
    at_random = held.gather(-1, moved)
    found = {
        "share": held.double().mean((1, 3, 4)),
        "largest": maps.amax(-1).double().mean((1, 3)),
        "overlap": overlap(held),
        "overlap of chance": overlap(at_random),
        "entries": held.sum(-1).double().mean((1, 3)),
    }
    return {
        name: [[round(value, 4) for value in row] for row in table.tolist()]
        for name, table in found.items()
    }


def characters() -> tuple[Tensor, Tensor]:
    """Maps of the character model on its passages: trained, and as it began."""
    models = load_tiny_model(), load_tiny_model(trained=False)
    text = torch.stack([encode(passage) for passage in models[0].sample])
    found = []
    for model in models:
        q, k, _ = model.heads(text)
        found.append(torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1))
    return found[0], found[1]


def main() -> None:
    quick = "--quick" in sys.argv
    torch.set_num_threads(1)
    began = time.process_time()
    with torch.no_grad():
        trained, first = characters()
        log = load_tiny_model().log
    result = {
        "characters": {
            "n": trained.shape[-1],
            "scores": {"loss": log["sample_loss"], "alphabet": len(CHARACTERS)},
            "trained": measure(trained),
            "as it began": measure(first),
        }
    }
    for name, make, settings in (("words", words, WORDS), ("digits", digits, DIGITS)):
        torch.manual_seed(0)
        steps = 20 if quick else settings["steps"]
        model, start, inputs, scores = make(steps, seed=0)
        with torch.no_grad():
            result[name] = {
                "n": settings["n"],
                "scores": scores,
                "trained": measure(model.maps(inputs)),
                "as it began": measure(start.maps(inputs)),
            }
        print(name, scores, f"{time.process_time() - began:.0f} s", flush=True)
    seconds = time.process_time() - began
    settings = {"mass": MASS, "inputs": INPUTS, "words": WORDS, "digits": DIGITS}
    settings |= {"layers": LAYERS, "heads": HEADS, "width": WIDTH, "seed": 0}
    if not quick:
        store.write("premise", result, settings=settings, seconds=seconds)
    for name, model in result.items():
        for state in ("trained", "as it began"):
            print(name, state, model[state])


if __name__ == "__main__":
    main()
