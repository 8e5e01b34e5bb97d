"""Checks of the hypotheses, shared by the rooms: each failure is a ValueError that
names what was broken, as the caller wrote it.
"""

from __future__ import annotations

import functools
import math
import sys
from fractions import Fraction
from numbers import Integral, Rational, Real

import torch

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def require(condition, message: str) -> None:
    """ValueError with this message, unless the condition holds."""
    if not condition:
        raise ValueError(message)


def is_tensor(name: str, tensor) -> None:
    """A torch tensor that stores all of its entries."""
    got = type(tensor).__name__
    require(torch.is_tensor(tensor), f"{name} must be a torch tensor, got {got}")
    layout = tensor.layout
    require(layout == torch.strided, f"{name} must be dense, got {layout}")


def is_floating(name: str, tensor) -> None:
    """A tensor of one of the floating dtypes that torch computes with."""
    is_tensor(name, tensor)
    require(
        tensor.dtype in FLOATS,
        f"{name} must be floating point (float16 and wider), got {tensor.dtype}: "
        "cast it first",
    )


def is_a(kind: type, /, **given) -> None:
    """The arguments, given by name, are of a kind."""
    for name, value in given.items():
        got = type(value)
        full = f"{got.__module__}.{got.__name__}".removeprefix("builtins.")
        require(
            isinstance(value, kind),
            f"{name} must be of type {kind.__name__}, got {full}",
        )


def is_list(**given) -> None:
    """The arguments, given by name, are lists or tuples."""
    for name, value in given.items():
        got = type(value).__name__
        require(isinstance(value, list | tuple), f"{name} must be a list, got {got}")


def matches(
    name: str, tensor, size: tuple[int, ...], like, like_name: str = "x"
) -> None:
    """The tensor has exactly this size, and the dtype and device of the tensor
    `like`, which the caller knows by the name like_name.
    """
    is_tensor(name, tensor)
    got = tuple(tensor.shape)
    require(
        got == tuple(size),
        f"{name} must have shape {tuple(size)} to fit {like_name} "
        f"{tuple(like.shape)}, got {got}",
    )
    require(
        tensor.dtype == like.dtype,
        f"all tensors must share one dtype: {name} is {tensor.dtype}, "
        f"{like_name} {like.dtype}",
    )
    same_device(name, tensor, like.device, like_name)


def same_device(name: str, tensor, device: torch.device, like_name: str = "x") -> None:
    """The tensor lies where the tensor called like_name lies."""
    require(
        tensor.device == device,
        f"all tensors must share one device: {name} is on {tensor.device}, "
        f"{like_name} on {device}",
    )


def tokens(x, name: str = "x") -> None:
    """A floating tensor (*batch, n, d) with at least one token and one feature."""
    is_floating(name, x)
    got = tuple(x.shape)
    require(len(got) >= 2, f"{name} must be (*batch, n, d), got {got}")
    require(
        0 not in got,
        f"{name} needs at least one token and one feature, and a batch that is not "
        f"empty, got {got}",
    )


def two_norms(x) -> None:
    """Tokens of a dtype in which torch has the 2-norm of a matrix."""
    require(
        x.dtype in (torch.float32, torch.float64),
        f"x is {x.dtype}, which has no 2-norm of a matrix in torch: "
        "cast x and the layers to float32 or float64",
    )


def finite(**tensors) -> None:
    """The tensors, given by name, hold neither NaN nor infinity; None is skipped."""
    for name, t in tensors.items():
        if t is not None:
            require(not t.is_meta, f"{name} is on the device meta: it holds no values")
            unlike = ~torch.isfinite(t).all()
            require(_seen(unlike) == 0, f"{name} holds NaN or infinity")


def _seen(count) -> int:
    """How many entries break a hypothesis: none that one could see, where torch.compile
    or vmap traces a function without values.
    """
    if torch.compiler.is_compiling():
        return 0
    try:
        return int(count)
    except RuntimeError as error:
        if "vmap" not in str(error):
            raise
        return 0


def heads(q, k, v, *, one_length: bool = False, check: bool = True) -> None:
    """Queries (*batch, n_q, d), keys (*batch, n, d) and values (*batch, n, d_v) that
    fit each other; with one_length, n_q = n; with check, finite.
    """
    tokens(q, "q")
    is_tensor("k", k)
    is_tensor("v", v)
    *batch, n_q, d = q.shape
    require(
        k.dim() == q.dim() and k.shape[-2] >= 1,
        f"k must be (*batch, n, d) with n >= 1 like q, got {tuple(k.shape)}",
    )
    require(v.dim() >= 1, "v must be (*batch, n, d_v), got a single number")
    n = n_q if one_length else k.shape[-2]
    matches("k", k, (*batch, n, d), q, "q")
    matches("v", v, (*batch, n, v.shape[-1]), k, "k")
    if check:
        finite(q=q, k=k, v=v)


def pair_mask(
    mask, size: tuple[int, ...], device: torch.device, *, check: bool = True
) -> None:
    """A boolean mask, True = may attend, that broadcasts to size, which is
    (*batch, h, n_q, n_k), or (*batch, n_q, n_k) without heads; with check, every query
    may attend to some key.
    """
    _boolean("mask", mask, device, "True = may attend")
    got = tuple(mask.shape)
    size = tuple(size)
    hint = ""
    if len(size) > 3 and got == size[:-3] + size[-2:]:
        hint = "; one mask a sequence, the same for all heads, is (b, 1, n, n)"
    require(_broadcasts(got, size), f"mask must broadcast to {size}, got {got}{hint}")
    empty = _seen((~mask).all(-1).sum()) if check else 0
    require(
        empty == 0,
        f"mask hides a whole row ({empty} rows attend to nothing): "
        "P 1 = 1 cannot hold. True means may attend; "
        "masks of torch.nn.MultiheadAttention mean the opposite",
    )


def token_mask(
    token_mask,
    size: tuple[int, ...],
    device: torch.device,
    *,
    heads: bool = False,
    check: bool = True,
) -> None:
    """A boolean mask, True = a token, of exactly this size, (*batch, n); with heads,
    (b, 1, n) serves all of them; with check, every sequence has a token.
    """
    _boolean("token_mask", token_mask, device, "True = a token")
    got = tuple(token_mask.shape)
    size = tuple(size)
    hint = ""
    if len(size) > 2 and got == (*size[:-2], size[-1]):
        hint = "; one mask a sequence, the same for all heads, is (b, 1, n)"
    alike = heads and len(got) == len(size) > 2 and _broadcasts(got, size)
    require(
        got == size or (alike and got[-1] == size[-1]),
        f"token_mask must have shape (*batch, n) = {size}, got {got}{hint}",
    )
    empty = _seen((~token_mask).all(-1).sum()) if check else 0
    require(
        empty == 0,
        f"token_mask leaves {empty} sequences without a token. True means a token; "
        "key_padding_mask of torch.nn.MultiheadAttention means the opposite",
    )


def _boolean(name: str, mask, device: torch.device, meaning: str) -> None:
    is_tensor(name, mask)
    require(
        mask.dtype == torch.bool,
        f"{name} must be boolean ({meaning}), got {mask.dtype}",
    )
    same_device(name, mask, device, "the rest")
    require(not mask.is_meta, f"{name} is on the device meta: it holds no values")


def _broadcasts(got: tuple[int, ...], size: tuple[int, ...]) -> bool:
    """Whether torch expands a tensor of the shape `got` to this size."""
    aligned = zip(reversed(got), reversed(size))
    return len(got) <= len(size) and all(a in (1, b) for a, b in aligned)


def sizes(least: int, /, **given) -> None:
    """The sizes, given by name, are integers of at least `least`; a bool, 2.5, or a
    tensor is none.
    """
    for name, size in given.items():
        integer = isinstance(size, Integral) and not isinstance(size, bool)
        require(
            integer and size >= least,
            f"{name} must be an integer of at least {least}, got {told(size)}",
        )


def numbers(**given) -> None:
    """The arguments, given by name, are finite real numbers, in the range of floats;
    torch takes no Fraction.
    """
    for name, value in given.items():
        real = isinstance(value, Real) and not isinstance(value, bool | Fraction)
        if not (real and abs(value) < math.inf):
            raise ValueError(f"{name} must be a finite number, got {told(value)}")
        if isinstance(value, Rational) and abs(value) > sys.float_info.max:
            raise ValueError(
                f"{name} must be in the range of floats, got {told(value)}"
            )


def fractions(**given) -> list[Fraction]:
    """The arguments, given by name, as Fractions. In them NumPy's integers would wrap,
    so these are refused.
    """
    for name, value in given.items():
        known = isinstance(value, int | float | Fraction)
        require(
            known and not isinstance(value, bool) and abs(value) < math.inf,
            f"{name} must be a finite int, float or Fraction, got {told(value)}",
        )
    return list(map(Fraction, given.values()))


def told(value) -> str:
    """The repr of a value, which Python refuses to integers of over 4300 digits."""
    try:
        return repr(value)
    except ValueError:
        return f"{type(value).__name__} of over 4300 digits"


def own_precision(function):
    """The function with products in the dtype of its arguments, under torch.autocast
    too: what it states about numbers rests on their rounding.
    """

    @functools.wraps(function)
    def precise(*args, **kwargs):
        off = {"enabled": False}
        with torch.autocast("cpu", **off), torch.autocast("cuda", **off):
            return function(*args, **kwargs)

    return precise


def widened(t: torch.Tensor) -> torch.Tensor:
    """Half precision as single, all else as it is."""
    return t.to(torch.promote_types(t.dtype, torch.float32))


def full_products(dtype: torch.dtype) -> None:
    """No setting lets torch round the factors of float32 products (TF32, bfloat16)."""
    try:
        full = torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # so torch answers where settings were mixed
        full = False
    require(
        full or dtype != torch.float32,
        "a float32 code needs products in full precision, and torch is set to less: "
        'torch.set_float32_matmul_precision("highest")',
    )


def scale(scale, *, check: bool = True) -> None:
    """None, a finite number, or such a number as a floating tensor ()."""
    if torch.is_tensor(scale):
        require(
            scale.is_floating_point() and scale.dim() == 0,
            "scale must be a number or a floating tensor of shape (), "
            f"got {scale.dtype} {tuple(scale.shape)}",
        )
        if check:
            finite(scale=scale)
    elif scale is not None:
        numbers(scale=scale)


def one_of(options, **given) -> None:
    """The arguments, given by name, are among the options, which are strings."""
    for name, value in given.items():
        require(
            isinstance(value, str) and value in options,
            f"{name} must be one of {list(options)}, got {value!r}",
        )


def random(generator) -> None:
    """A torch.Generator; None would draw from torch's global state, unseen."""
    require(
        isinstance(generator, torch.Generator),
        "generator must be a torch.Generator, such as torch.Generator().manual_seed(0),"
        f" got {type(generator).__name__}",
    )


def place(device) -> None:
    """A device of this machine."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, ValueError, AssertionError) as error:
        raise ValueError(
            f"device must be one of this machine, got {device!r}: {error}"
        ) from None


def floating(dtype) -> None:
    """A floating dtype of torch."""
    require(
        dtype in FLOATS,
        f"dtype must be a floating dtype such as torch.float64, got {dtype!r}",
    )
