"""attnbook.data.conll: a reader of local files, sentences that are made, and their
encoding.
"""

from __future__ import annotations

import pytest
import torch

from attnbook.data.conll import Tagged, encode, generate_entities, load_conll

FILE = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER


BRUSSELS NNP B-NP B-LOC
"""


def generator():
    return torch.Generator().manual_seed(0)


def test_a_file_is_read(tmp_path):
    path = tmp_path / "eng.train"
    path.write_text(FILE)
    got = load_conll(path)
    assert got.words == [["EU", "rejects"], ["Peter", "Blackburn"], ["BRUSSELS"]]
    assert got.tags == [["B-ORG", "O"], ["B-PER", "I-PER"], ["B-LOC"]]
    data = encode(got, 4, positions=True, generator=generator())
    assert data.names == [
        "B-LOC",
        "B-ORG",
        "B-PER",
        "I-PER",
        "O",
    ] and data.token_mask.sum(1).tolist() == [2, 2, 1]
    assert data.labels.tolist() == [[1, 4], [2, 3], [0, 0]] and not data.x[2, 1].any()


def test_made_sentences():
    got = generate_entities(100, generator=generator())
    assert len({tuple(s) for s in got.words}) == 100 and [
        len(s) for s in got.words
    ] == [len(t) for t in got.tags]
    assert {t for s in got.tags for t in s} == {"O", "B-PER", "I-PER", "B-ORG", "B-LOC"}
    per = {
        w
        for s, t in zip(got.words, got.tags)
        for w, k in zip(s, t)
        if k.endswith("PER")
    }
    org = {
        w
        for s, t in zip(got.words, got.tags)
        for w, k in zip(s, t)
        if k.endswith("ORG")
    }
    assert len(per & org) >= 8  # the name alone does not say
    assert got == generate_entities(100, generator=generator())


def test_positions_move_the_tokens():
    tagged = Tagged([["a", "b", "a"]], [["x", "y", "x"]])
    flat = encode(tagged, 5, positions=False, generator=generator()).x[0]
    placed = encode(tagged, 5, positions=True, generator=generator()).x[0]
    assert torch.equal(flat[0], flat[2]) and not torch.equal(placed[0], placed[2])


def test_what_editors_add_is_no_word(tmp_path):
    """A byte order mark and Windows' line ends."""
    path = tmp_path / "eng.train"
    path.write_bytes(FILE.encode("utf-8-sig").replace(b"\n", b"\r\n"))
    assert load_conll(path).words[0] == ["EU", "rejects"]


@pytest.mark.bad_input
def test_what_is_refused(tmp_path):
    for path in (None, tmp_path / "none", tmp_path):
        with pytest.raises(ValueError, match="conll2003"):
            load_conll(path)
    (tmp_path / "one").write_text("EU B-ORG\nword\n")
    with pytest.raises(ValueError, match="line 2 of one has one column"):
        load_conll(tmp_path / "one")
    (tmp_path / "latin").write_bytes("Zürich B-LOC\n".encode("latin-1"))
    with pytest.raises(ValueError, match="latin is not UTF-8, convert it"):
        load_conll(tmp_path / "latin")
    (tmp_path / "empty").write_text("\n\n")
    with pytest.raises(ValueError, match="no sentence"):
        load_conll(tmp_path / "empty")
    with pytest.raises(ValueError, match="count must be"):
        generate_entities(501, generator=generator())
    for wrong in (Tagged([], []), Tagged([["a"]], [["x", "y"]]), Tagged([[]], [[]])):
        with pytest.raises(ValueError, match="sentence|lengths"):
            encode(wrong, positions=False, generator=generator())
    with pytest.raises(ValueError, match="d must be"):
        encode(Tagged([["a"]], [["x"]]), 0, positions=False, generator=generator())
