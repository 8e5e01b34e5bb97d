"""What a page or a test depends on: the modules of this project that it imports, and
what these import, with the data that lie beside them.

The import of a module counts where its name is used: who says `theorems.paths.order`
depends on attnbook.theorems and on its module paths, and not on the claims of all other
pages, though Python loads them. What is looked up by a text while it runs is not seen.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

PLACES = ("", "book", "tests")  # where packages and modules lie


class Code:
    """The project's code as it lies there now; each file is read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.find = functools.cache(self._find)
        self.content = functools.cache(Path.read_bytes)
        self.next_to = functools.cache(self._next_to)

    def _find(self, name: str) -> Path | None:
        """The file of a module that is named as in an import; None of a foreign one."""
        for place in PLACES:
            path = self.root.joinpath(place, *name.split("."))
            for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
                if file.is_file():
                    return file
        return None

    def files_of(self, source: str) -> set[Path]:
        """The modules that a text names, each with the packages above it."""
        found = set()
        for name in named(source):
            parts = name.split(".")
            for end in range(1, len(parts) + 1):
                file = self.find(".".join(parts[:end]))
                if file is None:  # foreign, or what stands in the module before
                    break
                found.add(file)
        return found

    def _next_to(self, path: Path) -> set[Path]:
        """What one file takes from others: their code, and the data of its package."""
        if path.suffix != ".py":
            return set()
        found = self.files_of(self.content(path).decode(errors="replace"))
        return found | (data(path.parent) if path.name == "__init__.py" else set())

    def reached(self, starts: Iterable[Path]) -> set[Path]:
        """These files, and all that they lead to."""
        found, waiting = set(), list(starts)
        while waiting:
            path = waiting.pop()
            if path not in found:
                found.add(path)
                waiting += self.next_to(path)
        return found

    def key(self, starts: Iterable[Path], text: str = "") -> str:
        """Hash of a text, of what these files lead to, and of the pinned versions."""
        digest = hashlib.sha256(text.encode())
        pins = self.root.glob("requirements*.txt")
        for path in sorted({*self.reached(starts), *pins}):
            name = path.relative_to(self.root).as_posix()
            digest.update(f"{name}\n{len(self.content(path))}\n".encode())
            digest.update(self.content(path))
        return digest.hexdigest()


@functools.cache
def named(source: str) -> frozenset[str]:
    """The modules that a text may name, with their packages, and names in modules;
    none where it is no Python.
    """
    found, bound = set(), defaultdict(set)
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return frozenset()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.add(alias.name)
                short = alias.asname or alias.name.partition(".")[0]
                bound[short].add(alias.name if alias.asname else short)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module)
            for alias in node.names:
                bound[alias.asname or alias.name].add(f"{node.module}.{alias.name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            first, _, rest = dotted(node).partition(".")
            found |= {f"{module}.{rest}".rstrip(".") for module in bound.get(first, ())}
    return frozenset(found)


def dotted(node: ast.expr) -> str:
    """A name with its attributes, as a.b.c; "" of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


def data(folder: Path) -> set[Path]:
    """The files of a package that are no code; a package in it has its own."""
    found = set()
    for path in folder.iterdir():
        if path.is_dir() and path.name != "__pycache__":
            found |= set() if (path / "__init__.py").exists() else data(path)
        elif path.is_file() and path.suffix not in (".py", ".pyc"):
            found.add(path)
    return found
