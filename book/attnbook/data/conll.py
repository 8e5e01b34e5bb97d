"""Sentences with a tag a word: a reader of files in CoNLL format, and generated ones
where no file is at hand.

Page: notebooks/one_layer_memorization/reviewers_questions
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor

from attnlib import _require
from attnlib._require import require

WHERE = (
    "The CoNLL-2003 shared task is described at "
    "https://www.clips.uantwerpen.be/conll2003/ner/; its English text is from the "
    "Reuters corpus, which is requested from NIST. Any file with a word a line, its "
    "tag last, and an empty line between sentences will do."
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
VERBS = ["praised", "blamed", "joined", "left"]
DAYS = ["monday", "tuesday", "friday", "sunday"]
# A capital names a slot: P, O, L a person, organisation or place; others by _WORDS.
_WORDS = {"F": FIRST, "V": VERBS, "D": DAYS}
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


@dataclass(frozen=True)
class Tagged:
    """Sentences, and for each word a tag.

    Args:
        words: lists of words.
        tags: lists of tags, of the same lengths.
    """

    words: list[list[str]]
    tags: list[list[str]]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Tagged sentences as tensors.

    Args:
        x: (N, n, d).
        labels: (N, n) places in `names`, 0 where no token is.
        token_mask: (N, n), True = a token.
        names: the tags, sorted.
    """

    x: Tensor
    labels: Tensor
    token_mask: Tensor
    names: list[str]


def load_conll(path: str | os.PathLike[str] | None = None) -> Tagged:
    """Sentences of a local file in CoNLL format: the first column is the word, the last
    the tag.

    Args:
        path: of the file; nothing is downloaded.

    Returns:
        Tagged. Lines that begin with -DOCSTART- are passed over, empty lines end a
        sentence.

    Raises:
        ValueError: without a path or a file there (it says what to get), for a line
            with one column, a file that is not UTF-8, or no sentence.
    """
    file = None if path is None else Path(path)
    require(
        file is not None and file.is_file(),
        f"path must be a file in CoNLL format, got {path!r}. {WHERE}",
    )
    try:
        text = file.read_text(encoding="utf-8-sig")  # as some editors write it
    except UnicodeDecodeError as error:
        raise ValueError(f"{file.name} is not UTF-8, convert it: {error}") from None
    words = [[]]
    tags = [[]]
    for number, line in enumerate(text.split("\n"), 1):
        columns = line.split()
        if not columns or columns[0] == "-DOCSTART-":
            words.append([])
            tags.append([])
            continue
        require(
            len(columns) >= 2,
            f"line {number} of {file.name} has one column, {line.strip()!r}; "
            "word and tag are needed",
        )
        words[-1].append(columns[0])
        tags[-1].append(columns[-1])
    words = [sentence for sentence in words if sentence]
    tags = [sentence for sentence in tags if sentence]
    require(words, f"{file.name} holds no sentence. {WHERE}")
    return Tagged(words, tags)


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
    """
    _require.sizes(1, count=count)
    _require.random(generator)
    require(count <= 500, f"count must be at most 500, got {count}")

    def pick(items):
        i = torch.randint(len(items), (), generator=generator, device=generator.device)
        return items[int(i)]

    seen = {}
    while len(seen) < count:
        sentence = []
        tags = []
        for slot in pick(PATTERNS).split():
            if slot in "POL":
                words = [name for name in NAMES if name not in sentence]
            else:
                words = _WORDS.get(slot, [slot])
            sentence.append(pick(words))
            tags.append(_tag(slot, tags))
        seen[tuple(sentence)] = tags
    return Tagged([list(sentence) for sentence in seen], list(seen.values()))


def _tag(slot: str, before: list[str]) -> str:
    """The tag of a slot; a surname after a first name goes on with the person."""
    if slot == "P" and before[-1:] == ["B-PER"]:
        return "I-PER"
    tags = {"P": "B-PER", "F": "B-PER", "O": "B-ORG", "L": "B-LOC"}
    return tags.get(slot, "O")


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
        ValueError: for no Tagged, no sentence, words and tags of different lengths, or
            d below 1.
    """
    _require.is_a(bool, positions=positions)
    _require.is_a(Tagged, tagged=tagged)
    sizes = [len(s) for s in tagged.words]
    require(
        sizes and min(sizes) >= 1,
        "tagged must hold at least one sentence, and no empty one",
    )
    require(
        sizes == [len(t) for t in tagged.tags],
        "words and tags must have the same lengths",
    )
    _require.sizes(1, d=d)
    _require.random(generator)
    _require.floating(dtype)
    known = sorted(set(chain(*tagged.words)))
    number = {word: i for i, word in enumerate(known)}
    names = sorted(set(chain(*tagged.tags)))
    longest = max(sizes)
    vectors = torch.randn(
        len(known) + longest,
        d,
        generator=generator,
        dtype=dtype,
        device=generator.device,
    )
    places = vectors[len(known) :]
    x = torch.zeros(len(sizes), longest, d, dtype=dtype, device="cpu")
    labels = torch.zeros(len(sizes), longest, dtype=torch.long, device="cpu")
    token_mask = torch.zeros(len(sizes), longest, dtype=torch.bool, device="cpu")
    for i, (words, tags) in enumerate(zip(tagged.words, tagged.tags)):
        n = len(words)
        x[i, :n] = vectors[[number[word] for word in words]]
        if positions:
            x[i, :n] += places[:n]
        labels[i, :n] = torch.tensor([names.index(tag) for tag in tags], device="cpu")
        token_mask[i, :n] = True
    return Encoded(x, labels, token_mask, names)
