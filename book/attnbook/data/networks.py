"""Small trained networks that are stored beside the results.

Page: notebooks/path_decomposition/path_efficacy
"""

from __future__ import annotations

import base64
import hashlib
import math

import torch

from attnbook.data import load_result
from attnlib._require import floating, require
from attnlib.attention import Layer
from attnlib.efficacy import Reader


def load_reader(name: str, *, dtype: torch.dtype = torch.float32) -> Reader:
    """A stored network with a linear embedding and a linear readout.

    Args:
        name: of a stored result whose "result" holds shapes, float16 and sha256, as
            "path_efficacy_network".
        dtype: of the weights.

    Returns:
        Reader; each weight is a float16 number.

    Raises:
        ValueError: if nothing of that name is stored, or the weights are not those that
            the hash names, or the dtype is not floating.
    """
    floating(dtype)
    stored = load_result(name)["result"]
    require(
        {"shapes", "float16", "sha256"} <= set(stored),
        f"the stored result {name!r} holds no network",
    )
    raw = base64.b64decode(stored["float16"])
    found = hashlib.sha256(raw).hexdigest()
    require(
        found == stored["sha256"],
        f"the weights of {name!r} are damaged: sha256 {found[:12]}..., "
        f"not {stored['sha256'][:12]}...",
    )
    numbers = torch.frombuffer(bytearray(raw), dtype=torch.float16)
    shapes = stored["shapes"]
    sizes = [math.prod(shape) for shape in shapes]
    pieces = numbers.to(dtype).split(sizes)
    weights = [piece.view(shape) for piece, shape in zip(pieces, shapes)]
    embed, position, readout, bias, *rest = weights
    layers = []
    while rest:
        layers.append(Layer(*rest[:8]))
        rest = rest[8:]
    return Reader(embed, position, layers, readout, bias)
