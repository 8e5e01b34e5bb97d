"""Find a piece of code by its shape, and put another in its place.

A shape is code, an expression or some statements. It is found where the same code
stands; if that is nowhere, where it would stand if local names were others: a renamed
local, a moved line or another layout hides nothing.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Container


def replaced(text: str, old: str, new: str) -> ast.Module:
    """The module of this source with `new` wherever `old` stands; local names of `new`
    are renamed as those of `old` are.

    Raises:
        ValueError: if `old` is nowhere, or stands in several places under other names.
    """
    wanted = parsed(old)
    instead = parsed(new)
    if isinstance(wanted, list) and not isinstance(instead, list):
        instead = [ast.Expr(instead)]
    tree = ast.parse(text)
    for fixed in (Everything(), outer_names(tree)):
        work = Replace(wanted, instead, fixed)
        made = work.visit(copy.deepcopy(tree))
        if work.count:
            break
    if not work.count:
        raise ValueError(f"{old!r} is nowhere")
    if work.count > 1 and not isinstance(fixed, Everything):
        raise ValueError(
            f"{old!r} may be meant at {work.count} places: name the locals"
        )
    return ast.fix_missing_locations(made)


def parsed(text: str) -> ast.expr | list[ast.stmt]:
    """One expression, or a list of statements."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return ast.parse(text.strip()).body


class Everything(Container):
    """All names are fixed."""

    def __contains__(self, name: object) -> bool:
        return True


def outer_names(tree: ast.Module) -> set[str]:
    """Names that are no locals: builtins, imports, what a module defines."""
    names = set(dir(builtins))
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {
                (alias.asname or alias.name).split(".")[0] for alias in node.names
            }
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        else:
            named = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
            names |= {part.id for part in named if isinstance(part.ctx, ast.Store)}
    return names


def alike(wanted, found, names: dict[str, str], fixed: Container[str]) -> bool:
    """Whether two pieces have one shape; `names` gets what local names are called."""
    if isinstance(wanted, ast.Name) and isinstance(found, ast.Name):
        if wanted.id in fixed or found.id in fixed:
            return wanted.id == found.id
        if wanted.id not in names and found.id not in names.values():
            names[wanted.id] = found.id
        return names.get(wanted.id) == found.id
    if type(wanted) is not type(found):
        return False
    if isinstance(wanted, list):
        pairs = zip(wanted, found)
        same = len(wanted) == len(found)
        return same and all(alike(a, b, names, fixed) for a, b in pairs)
    if isinstance(wanted, ast.AST):
        parts = [part for part in wanted._fields if part != "ctx"]
        return all(
            alike(getattr(wanted, part, None), getattr(found, part, None), names, fixed)
            for part in parts
        )
    return wanted == found


class Rename(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node):
        node.id = self.names.get(node.id, node.id)
        return node


class Replace(ast.NodeTransformer):
    """Puts other code in place of each piece of a shape, and counts them."""

    def __init__(self, wanted, instead, fixed: Container[str]) -> None:
        self.wanted, self.instead, self.fixed = wanted, instead, fixed
        self.count = 0

    def instead_of(self, found):
        """What stands in place of this piece; None if it has another shape."""
        names: dict[str, str] = {}
        if not alike(self.wanted, found, names, self.fixed):
            return None
        self.count += 1
        made = copy.deepcopy(self.instead)
        for node in made if isinstance(made, list) else [made]:
            Rename(names).visit(node)
        return made

    def visit(self, node):
        if isinstance(node, ast.expr) and not isinstance(self.wanted, list):
            made = self.instead_of(node)
            if made is not None:
                return made
        return super().visit(node)

    def generic_visit(self, node):
        super().generic_visit(node)
        if isinstance(self.wanted, list):
            for part in ("body", "orelse", "finalbody"):
                if isinstance(getattr(node, part, None), list):
                    setattr(node, part, self.in_block(getattr(node, part)))
        return node

    def in_block(self, block: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of a block, with others in place of those that are wanted."""
        size = len(self.wanted)
        made = []
        at = 0
        while at < len(block):
            instead = self.instead_of(block[at : at + size])
            made += block[at : at + 1] if instead is None else instead
            at += 1 if instead is None else size
        return made or ([ast.Pass()] if block else [])
