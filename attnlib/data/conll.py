"""Sentences with a tag a word: a reader of files in CoNLL format, and generated ones
where no file is at hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib._require import require

WHERE = (
    "The CoNLL-2003 shared task is described at https://www.clips.uantwerpen.be/conll2003/ner/; its English text is from "
    "the Reuters corpus, which is requested from NIST. Any file with a word a line, its tag last, and an empty line "
    "between sentences will do."
)
NAMES = [
    "jordan",
    "paris",
    "florence",
    "chelsea",
    "austin",
    "georgia",
    "sydney",
    "madison",
    "lincoln",
    "virginia",
]
FIRST = ["anna", "boris", "clara", "david", "emma"]
VERBS, DAYS = (
    ["praised", "blamed", "joined", "left"],
    ["monday", "tuesday", "friday", "sunday"],
)
# a capital names a slot: P person, O organisation, L place, F first name, V verb, D day
PATTERNS = (
    "P said that profits rose on D",
    "mr P will visit L on D",
    "F P V O last D",
    "O beat O by two goals on D",
    "shares of O fell after talks in L",
    "rain fell across L and L on D",
    "P V O in L",
    "F P left O for O",
)


class Tagged(NamedTuple):
    """Sentences, and for each word a tag.

    Args:
        words: lists of words.
        tags: lists of tags, of the same lengths.

    Page:
        notebooks/one_layer_memorization/reviewers_questions
    """

    words: list[list[str]]
    tags: list[list[str]]


class Encoded(NamedTuple):
    """Tagged sentences as tensors.

    Args:
        x: (N, n, d).
        labels: (N, n) places in `names`, 0 where no token is.
        mask: (N, n), True where a token is.
        names: the tags, sorted.

    Page:
        notebooks/one_layer_memorization/reviewers_questions
    """

    x: Tensor
    labels: Tensor
    mask: Tensor
    names: list[str]


def load_conll(path: str | Path | None = None) -> Tagged:
    """Sentences of a local file in CoNLL format: the first column is the word, the last
    the tag.

    Args:
        path: of the file; nothing is downloaded.

    Returns:
        Tagged. Lines that begin with -DOCSTART- are passed over, empty lines end a
        sentence.

    Raises:
        ValueError: without a path or a file there (it says what to get), for a line
            with one column, or no sentence.

    Page:
        notebooks/one_layer_memorization/reviewers_questions
    """
    file = None if path is None else Path(path)
    require(
        file is not None and file.is_file(),
        f"path must be a file in CoNLL format, got {path!r}. {WHERE}",
    )
    words, tags = [[]], [[]]
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        columns = line.split()
        if not columns or columns[0] == "-DOCSTART-":
            words, tags = (
                (words, tags) if not words[-1] else ([*words, []], [*tags, []])
            )
            continue
        require(
            len(columns) >= 2,
            f"line {number} of {file.name} has one column, {line.strip()!r}; word and tag are needed",
        )
        words[-1].append(columns[0])
        tags[-1].append(columns[-1])
    kept = [(w, t) for w, t in zip(words, tags) if w]
    require(kept, f"{file.name} holds no sentence. {WHERE}")
    return Tagged([w for w, _ in kept], [t for _, t in kept])


def generate_entities(count: int, *, generator: torch.Generator) -> Tagged:
    """Sentences in which ten names are persons, organisations or places, as the words
    around them say.

    Args:
        count: how many, all different; at most 500.
        generator: source of randomness.

    Returns:
        Tagged, with tags O, B-PER, I-PER, B-ORG, B-LOC.

    Raises:
        ValueError: for a count outside 1..500.

    Page:
        notebooks/one_layer_memorization/reviewers_questions
    """
    require(1 <= count <= 500, f"count must be between 1 and 500, got {count}")

    def pick(items):
        return items[int(torch.randint(len(items), (), generator=generator))]

    seen = {}
    while len(seen) < count:
        sentence, tags = [], []
        for slot in pick(PATTERNS).split():
            if slot in "POL":
                sentence.append(pick([n for n in NAMES if n not in sentence]))
                tags.append(
                    {
                        "P": "I-PER" if tags[-1:] == ["B-PER"] else "B-PER",
                        "O": "B-ORG",
                        "L": "B-LOC",
                    }[slot]
                )
            else:
                sentence.append(
                    pick({"F": FIRST, "V": VERBS, "D": DAYS}.get(slot, [slot]))
                )
                tags.append("B-PER" if slot == "F" else "O")
        seen[tuple(sentence)] = tags
    return Tagged([list(s) for s in seen], list(seen.values()))


def encode(
    tagged: Tagged,
    d: int = 16,
    *,
    positions: bool,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float64,
) -> Encoded:
    """Random vectors for the words, plus others for the places if positions are asked
    for; short sentences are padded.

    Args:
        tagged: sentences.
        d: features.
        positions: add a vector that depends on the place.
        generator: draws the vectors, in order of the sorted words, then of the places.
        dtype: of x.

    Returns:
        Encoded.

    Raises:
        ValueError: for no sentence, words and tags of different lengths, or d below 1.

    Page:
        notebooks/one_layer_memorization/reviewers_questions
    """
    sizes = [len(s) for s in tagged.words]
    require(
        sizes and min(sizes) >= 1,
        "tagged must hold at least one sentence, and no empty one",
    )
    require(
        sizes == [len(t) for t in tagged.tags],
        "words and tags must have the same lengths",
    )
    require(d >= 1, f"d must be at least 1, got {d}")
    known = {w: i for i, w in enumerate(sorted({w for s in tagged.words for w in s}))}
    names = sorted({t for s in tagged.tags for t in s})
    vectors = torch.randn(len(known) + max(sizes), d, generator=generator, dtype=dtype)
    x, mask = (
        torch.zeros(len(sizes), max(sizes), d, dtype=dtype),
        torch.zeros(len(sizes), max(sizes), dtype=torch.bool),
    )
    labels = torch.zeros(len(sizes), max(sizes), dtype=torch.long)
    for i, (words, tags) in enumerate(zip(*tagged)):
        x[i, : len(words)] = vectors[[known[w] for w in words]]
        x[i, : len(words)] += (
            vectors[len(known) : len(known) + len(words)] if positions else 0
        )
        labels[i, : len(words)] = torch.tensor([names.index(t) for t in tags])
        mask[i, : len(words)] = True
    return Encoded(x, labels, mask, names)
