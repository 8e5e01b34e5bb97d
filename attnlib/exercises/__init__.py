"""Checks of the exercises, a module a chapter: each says "not tried yet" on None and names a likely mistake."""

from attnlib.exercises import codes, collapse, complexity, copying, efficacy, escaping, expressive, lowrank, paths, patterns, projections, questions

__all__ = ["codes", "collapse", "complexity", "copying", "efficacy", "escaping", "expressive", "lowrank", "paths", "patterns", "projections", "questions"]
