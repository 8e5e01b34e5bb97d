"""Checks of the exercises, a module a chapter: each says "not tried yet" on None and names a likely mistake."""

from attnlib.exercises import (
    codes, collapse, complexity, efficacy, escaping, expressive, lowrank, memorization, paths, projections, questions, reviewers,
)

__all__ = ["codes", "collapse", "complexity", "efficacy", "escaping", "expressive", "lowrank", "memorization", "paths", "projections", "questions", "reviewers"]
