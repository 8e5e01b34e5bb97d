"""Write the small intersphinx inventories in book/_inv.

    python book/_tools/inventories.py

The API page links to other projects without asking the network: it needs only
the few names that signatures of attnlib use. Add a name here and run this again.
"""

from __future__ import annotations

import zlib
from pathlib import Path

OUT = Path(__file__).resolve().parents[1] / "_inv"
FUNCTIONS = "library/functions.html#"
NAMES = {
    "python": {
        **{
            name: FUNCTIONS + name
            for name in ("int", "float", "bool", "str", "complex", "object", "slice")
        },
        **{
            name: f"{FUNCTIONS}func-{name}"
            for name in ("list", "tuple", "dict", "set", "frozenset", "range")
        },
        "None": "library/constants.html#None",
        "typing.Any": "library/typing.html#typing.Any",
        "typing.NamedTuple": "library/typing.html#typing.NamedTuple",
        **{
            name: f"library/collections.abc.html#{name}"
            for name in (
                "collections.abc.Callable",
                "collections.abc.Iterable",
                "collections.abc.Iterator",
                "collections.abc.Sequence",
            )
        },
        "fractions.Fraction": "library/fractions.html#fractions.Fraction",
        "os.PathLike": "library/os.html#os.PathLike",
        "ValueError": "library/exceptions.html#ValueError",
    },
    "numpy": {"numpy.ndarray": "reference/generated/numpy.ndarray.html"},
    "torch": {
        # jaxtyping prints the short name
        **dict.fromkeys(("torch.Tensor", "Tensor"), "tensors.html#torch.Tensor"),
        **dict.fromkeys(
            ("torch.Generator", "torch._C.Generator"), "generated/torch.Generator.html"
        ),
        "torch.dtype": "tensor_attributes.html#torch.dtype",
        "torch.device": "tensor_attributes.html#torch.device",
        **dict.fromkeys(
            ("torch.nn.Module", "torch.nn.modules.module.Module"),
            "generated/torch.nn.Module.html#torch.nn.Module",
        ),
        "torch.nn.modules.activation.MultiheadAttention": (
            "generated/torch.nn.MultiheadAttention.html"
        ),
    },
    "matplotlib": {
        "matplotlib.figure.Figure": "api/figure_api.html#matplotlib.figure.Figure",
        "matplotlib.axes.Axes": "api/_as_gen/matplotlib.axes.Axes.html",
    },
    "jaxtyping": {
        f"jaxtyping.{kind}": "api/array/#dtype"
        for kind in ("Float", "Int", "Bool", "Num", "Complex", "Shaped", "Integer")
    },
    "ipython": {
        "IPython.core.display.HTML": (
            "api/generated/IPython.display.html#IPython.display.HTML"
        )
    },
}


def role(name: str) -> str:
    """The role under which autodoc asks for a name."""
    return (
        "py:exception"
        if name.endswith("Error")
        else "py:data"
        if name == "None"
        else "py:class"
    )


def inventory(project: str, names: dict[str, str]) -> bytes:
    """A Sphinx inventory, version 2: four lines of text, then the names compressed."""
    head = (
        "# Sphinx inventory version 2\n"
        f"# Project: {project}\n"
        "# Version: \n"
        "# The remainder of this file is compressed using zlib.\n"
    )
    lines = "".join(
        f"{name} {role(name)} 1 {place} -\n" for name, place in sorted(names.items())
    )
    return head.encode() + zlib.compress(lines.encode(), 9)


def main() -> None:
    OUT.mkdir(exist_ok=True)
    for project, names in NAMES.items():
        (OUT / f"{project}.inv").write_bytes(inventory(project, names))
        print(f"book/_inv/{project}.inv: {len(names)} names")


if __name__ == "__main__":
    main()
