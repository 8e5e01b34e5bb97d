"""Checks of the exercises, a module a chapter: each says "not tried yet" on None and names a likely mistake."""

from attnlib.exercises import collapse, complexity, efficacy, escaping, expressive, lowrank, paths, projections, questions

__all__ = ["collapse", "complexity", "efficacy", "escaping", "expressive", "lowrank", "paths", "projections", "questions"]
