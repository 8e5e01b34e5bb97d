"""Each public function called with one argument broken at a time: it answers rightly,
or by an error of its own that names the argument.

The good calls stand in tests/fuzz_calls.py. A failure reads `paths.path_sums(x=nan)`;
`repeat("paths.path_sums", "x", "nan")` makes that call again.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import itertools
import linecache
import math
import re
import signal
import warnings
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from numbers import Number
from pathlib import Path
from typing import NamedTuple

import mpmath
import numpy as np
import pytest
import torch
import torch._dynamo  # noqa: F401 (Adam imports it in its first step, for seconds)
from fuzz_calls import EXCUSED, LEGAL, ROOMS, SEED, Several

from attnlib.patterns import Pattern, dense

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGPROF"), reason="this system has no alarm for what hangs"
)
ROOT = Path(__file__).resolve().parents[1]
SECONDS = 60  # of the processor for a call: only what hangs takes more
REFUSED = object()  # in place of an equal argument: no answer can be right
NUMBERS = (Number, mpmath.mpf, np.ndarray)
# Two arguments no longer fit: the message may name either.
MISFITS = {
    *("deeper", "empty", "scalar", "shallower", "narrow", "short"),
    *("shorter", "longer", "nones", "meta"),
}
# An answer to fewer digits may have fewer right.
DIGITS = {"half": 1e-2, "single": 1e-4}


class Break(NamedTuple):
    """What stands in place of a good argument. An answer to it is right if it is the
    answer to `like`.
    """

    value: object
    like: object = REFUSED


class Broken(NamedTuple):
    """A good call with one argument broken, or the same with an argument that only
    looks broken: then it is legal.
    """

    argument: str
    name: str
    value: object
    like: object
    legal: bool

    @property
    def kind(self) -> str:
        """The break, without the place inside the argument."""
        return self.name.split(":")[-1]


# --- ways to break an argument, by its kind ---


def breaks(value) -> dict[str, Break]:
    """Named ways to break a value of this kind."""
    if value is SEED:
        return {"none": Break(None), "number": Break(3)}
    if torch.is_tensor(value):
        return tensor_breaks(value)
    if isinstance(value, np.ndarray):
        return array_breaks(value)
    if isinstance(value, bool):
        return switch_breaks()
    if isinstance(value, int):
        return {**size_breaks(value), **not_numbers()}
    if isinstance(value, float | Fraction):
        return {**real_breaks(), **not_numbers()}
    if isinstance(value, tuple | list | Several):
        return sequence_breaks(value)
    return object_breaks(value)


def switch_breaks() -> dict[str, Break]:
    """True or false in an `if`, but no booleans; NumPy's may be taken for one."""
    return {
        "word": Break("False"),
        "zero": Break(0.0),
        "nan": Break(math.nan),
        "two": Break(2),
        "none": Break(None),
        "numpy": Break(np.bool_(True), True),
    }


def object_breaks(value) -> dict[str, Break]:
    """Something else in place of a word, a dtype, a pattern, a function, an object."""
    found = {"none": Break(None), "number": Break(3), "word": Break("no such word")}
    if isinstance(value, str):
        found["list"] = Break([value])
    if isinstance(value, torch.dtype):
        found["int64"] = Break(torch.int64)
        found["complex"] = Break(torch.complex64)
    if isinstance(value, Pattern):
        found["mask"] = Break(value.mask())
        found["longer"] = Break(dense(value.n + 1))
    return found


def tensor_breaks(t) -> dict[str, Break]:
    found = {**shape_breaks(t), **kind_breaks(t)}
    if t.is_floating_point():
        other = torch.float32 if t.dtype == torch.float64 else torch.float64
        integers = t.long()
        found["nan"] = Break(with_first(t, math.nan))
        found["inf"] = Break(with_first(t, math.inf))
        found["integer"] = Break(integers, integers.to(t.dtype))
        found["half"] = Break(t.half(), t.half().to(t.dtype))
        found["single"] = Break(t.to(other), t.to(other).to(t.dtype))
    elif t.dtype == torch.bool:
        found["hidden"] = Break(torch.zeros_like(t))
        found["float"] = Break(t.double())
        found["integer"] = Break(t.long())
    else:
        found["negative"] = Break(with_first(t, -1))
        found["large"] = Break(with_first(t, 10**6))
        found["float"] = Break(t + 0.5)
        found["bool"] = Break(t > 0)
        found["int32"] = Break(t.int(), t)
    return found


def with_first(t, number):
    """A copy with another first entry."""
    broken = t.clone()
    broken.view(-1)[0] = number
    return broken


def shape_breaks(t) -> dict[str, Break]:
    found = {"deeper": Break(t[None], t)}
    if t.dim():
        found["empty"] = Break(t[:0])
        found["scalar"] = Break(t.reshape(-1)[0])
        found["shallower"] = Break(t[0])
        found["narrow"] = Break(t[..., :-1])
    if t.dim() > 1:
        found["short"] = Break(t[..., :-1, :])
    return found


def kind_breaks(t) -> dict[str, Break]:
    return {
        "complex": Break(t.to(torch.complex64)),
        "meta": Break(t.to("meta")),
        "sparse": Break(t.to_sparse()),
        "list": Break(t.tolist(), t),
        "numpy": Break(t.numpy(), t),
        "none": Break(None),
        "string": Break("no tensor"),
    }


def array_breaks(a: np.ndarray) -> dict[str, Break]:
    return {
        "empty": Break(a[:0]),
        "scalar": Break(a.reshape(-1)[0]),
        "shallower": Break(a[0]),
        "narrow": Break(a[..., :-1]),
        "float": Break(a + 0.5),
        "list": Break(a.tolist(), a),
        "torch": Break(torch.tensor(a.astype(np.int64)), a),
        "none": Break(None),
        "string": Break("no array"),
    }


def size_breaks(size: int) -> dict[str, Break]:
    zero = Break(0) if size else Break(-2)
    return {
        "zero": zero,
        "negative": Break(-1),
        "fraction": Break(2.5),
        "nan": Break(math.nan),
        "inf": Break(math.inf),
        "true": Break(True),
        "tensor": Break(torch.tensor(size)),
        "numpy": Break(np.int64(size), size),
    }


def real_breaks() -> dict[str, Break]:
    return {
        "zero": Break(0.0),
        "negative": Break(-1.5),
        "nan": Break(math.nan),
        "inf": Break(math.inf),
        "-inf": Break(-math.inf),
        "exact": Break(Fraction(1, 3), 1 / 3),
    }


def not_numbers() -> dict[str, Break]:
    return {
        "none": Break(None),
        "string": Break("3"),
        "complex": Break(1j),
        "list": Break([1]),
    }


def sequence_breaks(values) -> dict[str, Break]:
    """The whole broken, its length, and its first entry or its named fields."""
    kind = type(values)
    if is_weights(values):
        found = {"none": Break(None), "number": Break(3), "string": Break("ab")}
        optional = [f for f, value in values._field_defaults.items() if value is None]
        for field, part in values._asdict().items():
            for name, broken in part_breaks(part).items():
                if name != "none" or field not in optional:
                    found[f"{field}:{name}"] = in_place(values, field, broken)
        return found
    found = {
        "empty": Break(kind()),
        "nones": Break(kind([None] * len(values))),
        "shorter": Break(values[:-1]),
        "longer": Break(values + values[-1:]),
    }
    if kind is not Several:
        found |= {"none": Break(None), "number": Break(3), "string": Break("ab")}
    for name, broken in part_breaks(values[0] if values else None).items():
        like = broken.like
        if like is not REFUSED:
            like = kind([like, *values[1:]])
        found[f"[0]:{name}"] = Break(kind([broken.value, *values[1:]]), like)
    return found


def in_place(values, field: str, broken: Break) -> Break:
    """A tuple of weights with one of them broken."""
    like = broken.like
    if like is not REFUSED:
        like = values._replace(**{field: like})
    return Break(values._replace(**{field: broken.value}), like)


def part_breaks(part) -> dict[str, Break]:
    """The breaks of an entry: one that is None stays, and any finite number is good."""
    if part is None:
        return {}
    found = breaks(part)
    if isinstance(part, float | Fraction):
        del found["zero"], found["negative"]
    return found


# --- one call and what came of it ---


class Hang(Exception):
    """A call that did not end in time."""


def on_alarm(*_):
    raise Hang(f"longer than {SECONDS} seconds")


def run(function, arguments: dict):
    """The answer, with a fresh generator; an iterator is read to its end."""
    several = any(isinstance(value, Several) for value in arguments.values())
    positional, named = [], {}
    for name, value in arguments.items():
        if value is SEED:
            value = torch.Generator().manual_seed(0)
        if isinstance(value, torch.nn.Module):
            value = copy.deepcopy(value)  # training changes it
        if isinstance(value, Several):
            positional += value
        elif several:  # in f(n, *parts) n has no name
            positional.append(value)
        else:
            named[name] = value
    answer = function(*positional, **named)
    if isinstance(answer, Iterator):
        answer = list(itertools.islice(answer, 100))
    return answer


def outcome(function, arguments: dict, names: set[str]) -> tuple[str, object]:
    """("own", message), the same with "unnamed" or "raw", or ("answer", answer)."""
    before = signal.signal(signal.SIGPROF, on_alarm)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return "answer", run(function, arguments)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is judged)
        return judged(error, names)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judged(error: Exception, names: set[str]) -> tuple[str, str]:
    """Own is a ValueError or TypeError that code of ours raised and that names the
    argument.
    """
    message = f"{type(error).__name__}: {error}"
    if not isinstance(error, ValueError | TypeError) or not raised_here(error):
        return "raw", message
    said = any(re.search(rf"\b{name.rstrip('s')}s?\b", str(error)) for name in names)
    return "own" if said else "unnamed", message


def raised_here(error: Exception) -> bool:
    """Whether a `raise` in this repository is where the error comes from."""
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    path = Path(trace.tb_frame.f_code.co_filename)
    line = linecache.getline(str(path), trace.tb_lineno).strip()
    ours = any(
        path.is_relative_to(ROOT / folder)
        for folder in ("attnlib", "book/attnbook", "tests")
    )
    return ours and line.startswith("raise")


def leaves(answer) -> Iterator[object]:
    """Its tensors, arrays and numbers."""
    if torch.is_tensor(answer) or isinstance(answer, NUMBERS):
        yield answer
    elif dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        for field in dataclasses.fields(answer):
            yield from leaves(getattr(answer, field.name))
    elif isinstance(answer, torch.nn.Module):
        yield from answer.state_dict().values()
    elif isinstance(answer, Mapping):
        for key in answer:
            yield from leaves(answer[key])
    elif isinstance(answer, Sequence | set) and not isinstance(answer, str):
        for entry in answer:
            yield from leaves(entry)


def as_numbers(leaf) -> np.ndarray:
    """The entries of a leaf in a row; a tensor that holds no values counts as NaN."""
    if not torch.is_tensor(leaf):
        return np.asarray(leaf, dtype=complex).reshape(-1)
    if leaf.is_meta:
        return np.full(1, math.nan)
    leaf = leaf.detach().to_dense() if leaf.is_sparse else leaf.detach()
    return leaf.to(torch.complex128).reshape(-1).numpy()


def is_nan(answer) -> bool:
    return any(np.isnan(as_numbers(leaf)).any() for leaf in leaves(answer))


def alike(one, other, digits: float) -> bool:
    """The same numbers, up to rounding and leading dimensions of size one."""
    first = list(map(as_numbers, leaves(one)))
    second = list(map(as_numbers, leaves(other)))
    return len(first) == len(second) and all(
        a.size == b.size and np.allclose(a, b, rtol=digits, atol=digits)
        for a, b in zip(first, second)
    )


# --- a function and all its breaks ---


def broken_calls(function, row: dict, legal: set[tuple[str, str]]) -> Iterator[Broken]:
    """Every argument of a good call broken in every way."""
    for argument, value in (switches(function) | row).items():
        optional = may_be_none(function, argument)
        for name, (broken, like) in breaks(value).items():
            if name == "none" and optional:
                continue
            fine = {(argument, name), (argument, name[name.rfind(":") :])} & legal
            yield Broken(argument, name, broken, like, bool(fine))


def switches(function) -> dict[str, bool]:
    """Its arguments that are booleans, but for those that change no answer."""
    parameters = inspect.signature(function).parameters
    return {
        name: True
        for name, parameter in parameters.items()
        if parameter.annotation in ("bool", "bool | None")
        and name not in ("check", "progress")
    }


def may_be_none(function, argument: str) -> bool:
    parameter = inspect.signature(function).parameters.get(argument)
    return parameter is not None and parameter.default is None


def fault(call: Broken, function, row: dict) -> str:
    """What is wrong with the outcome of a broken call; nothing if all is well."""
    names = {call.argument, *re.findall(r"\w+(?=:)", call.name)}
    if call.kind in MISFITS:
        names |= names_in(row)
    kind, found = outcome(function, row | {call.argument: call.value}, names)
    if kind == "own":
        return f"refused, and listed as legal: {found}" if call.legal else ""
    if kind != "answer":
        return f"{kind} {found}"
    if is_nan(found):
        no_number = call.kind in ("nan", "inf")
        return "" if call.legal and no_number else "answered by NaN"
    if call.legal or is_right(call, found, function, row):
        return ""
    return f"answered by {str(found)[:60]!r}"


def names_in(values: dict) -> set[str]:
    """The names of arguments, and of the weights inside them."""
    found = set(values)
    for value in values.values():
        while isinstance(value, tuple | list) and value and not is_weights(value):
            value = value[0]
        if is_weights(value):
            found |= names_in(value._asdict())
    return found


def is_weights(value) -> bool:
    """A tuple whose entries have names."""
    return hasattr(value, "_asdict")


def is_right(call: Broken, found, function, row: dict) -> bool:
    """Whether an answer is that to an equal argument."""
    if call.like is REFUSED:
        return False
    kind, wanted = outcome(function, row | {call.argument: call.like}, set())
    if kind != "answer":  # rounding broke a hypothesis
        wanted = run(function, row)
    return alike(found, wanted, DIGITS.get(call.kind, 1e-6))


def faults_of(name: str, function, row: dict, legal=frozenset()) -> list[str]:
    """A line for each broken call that is neither refused nor answered rightly."""
    kind, found = outcome(function, row, set())
    if kind != "answer" or is_nan(found):
        return [f"{name}: the good call fails, {found}"]
    faults = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in broken_calls(function, row, legal):
            wrong = fault(call, function, row)
            if wrong:
                faults.append(f"{name}({call.argument}={call.name}): {wrong}")
    return faults


# --- the public functions ---


def resolve(name: str):
    """The function that a row is about; data lie in attnbook."""
    parts = ["attnbook" if name.startswith("data.") else "attnlib", *name.split(".")]
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def public_functions() -> set[str]:
    """The functions of the modules on the API pages, those of private modules under the
    name by which a module shows them.
    """
    shown = [p.read_text(encoding="utf-8") for p in (ROOT / "book").glob("api*.md")]
    page = "".join(shown)
    found = set()
    for package, path in re.findall(r"automodule:: (\w+)\.([\w.]+)", page):
        module = importlib.import_module(f"{package}.{path}")
        shown = getattr(module, "__all__", ())
        for name, value in vars(module).items():
            if name.startswith("_") or not inspect.isfunction(inspect.unwrap(value)):
                continue
            private = "._" in value.__module__ and name in shown
            if private or value.__module__ == module.__name__:
                found.add(f"{path}.{name}")
    return found


def legal_breaks() -> dict[str, set[tuple[str, str]]]:
    """(argument, break) that are right all the same, by function."""
    found = {}
    for lines in LEGAL.values():
        for function, argument, names in re.findall(r"(\S+) (\w+): (.+)", lines):
            pairs = {(argument, name) for name in names.split()}
            found.setdefault(function, set()).update(pairs)
    return found


def repeat(function: str, argument: str, name: str):
    """The broken call once more, with the whole trace of its error."""
    row = ROOMS[function.split(".")[0]]()[function]
    return run(resolve(function), row | {argument: breaks(row[argument])[name].value})


# --- tests ---


@pytest.mark.bad_input
@pytest.mark.parametrize("room", ROOMS)
def test_a_broken_argument_is_refused_by_name_or_answered_rightly(room):
    legal = legal_breaks()
    found = []
    for name, row in ROOMS[room]().items():
        found += faults_of(name, resolve(name), row, legal.get(name, set()))
    assert not found, "\n".join(found)


def is_excused(function: str, excuse: str) -> bool:
    return f"{function}.".startswith(f"{excuse}.")


def test_every_public_function_has_a_row_or_an_excuse():
    rows = {name for room in ROOMS.values() for name in room()}
    functions = public_functions()
    missing = [
        function
        for function in functions - rows
        if not any(is_excused(function, excuse) for excuse in EXCUSED)
    ]
    idle = [
        excuse
        for excuse in EXCUSED
        if not any(is_excused(function, excuse) for function in functions - rows)
    ]
    assert len(functions) > 100
    assert not missing, "no good call of these stands in tests/fuzz_calls.py"
    assert not idle, "these excuses excuse nothing"


def test_what_is_listed_as_legal_is_a_break():
    rows = {name: row for room in ROOMS.values() for name, row in room().items()}
    for function, pairs in legal_breaks().items():
        for argument, name in pairs:
            known = list(breaks(rows[function][argument]))
            assert any(k == name or k.endswith(name) for k in known), (function, name)


# --- controls: functions of which each does one thing wrong ---


def unchecked(x):
    return x.softmax(-1)


def vague(x):
    if not torch.is_tensor(x) or not x.is_floating_point() or x.dim() != 2:
        raise ValueError("bad input")
    return x.new_zeros(())


def constant(n):
    return n * 0 + 1


def switched(n, skip: bool = False):
    careful(n)
    return n + 1 if skip else n


def careful(n):
    if type(n) is not int or n < 1:
        raise ValueError(f"n must be an integer of at least 1, got {n!r}")
    return n


X = torch.arange(6.0, dtype=torch.float64).view(2, 3)


@pytest.mark.parametrize(
    ("function", "row", "call", "words"),
    [
        (unchecked, {"x": X}, "x=nan", "answered by NaN"),
        (unchecked, {"x": X}, "x=narrow", "answered by 'tensor"),
        (unchecked, {"x": X}, "x=none", "raw AttributeError"),
        (unchecked, {"x": X}, "x=meta", "answered by NaN"),
        (unchecked, {"x": X}, "x=integer", "raw NotImplementedError"),
        (vague, {"x": X}, "x=shallower", "unnamed ValueError: bad input"),
        (vague, {"x": X}, "x=inf", "answered by 'tensor(0."),
        (constant, {"n": 4}, "n=fraction", "answered by '1.0'"),
        (constant, {"n": 4}, "n=none", "raw TypeError"),
        (switched, {"n": 4}, "skip=word", "answered by '5'"),
        (switched, {"n": 4}, "skip=zero", "answered by '4'"),
    ],
)
def test_a_function_without_checks_is_found_out(function, row, call, words):
    found = faults_of("f", function, row)
    assert any(line.startswith(f"f({call}): {words}") for line in found), found


def test_a_careful_function_has_no_faults_unless_it_refuses_what_is_legal():
    assert faults_of("f", careful, {"n": 4}) == []
    [found] = faults_of("f", careful, {"n": 4}, {("n", "zero")})
    assert found.startswith("f(n=zero): refused, and listed as legal")
