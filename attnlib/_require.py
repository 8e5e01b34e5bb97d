"""Checks of the hypotheses, shared by the rooms: each failure is a ValueError that
names what was broken.
"""

from __future__ import annotations

import torch


def require(condition, message: str) -> None:
    """ValueError with this message, unless the condition holds."""
    if not condition:
        raise ValueError(message)


def matches(name: str, tensor, size: tuple[int, ...], like) -> None:
    """The tensor has exactly this size, and the dtype and device of the tensor
    `like`.
    """
    is_tensor = torch.is_tensor(tensor)
    if (
        is_tensor
        and tensor.shape == size
        and tensor.dtype == like.dtype
        and tensor.device == like.device
    ):
        return
    require(is_tensor, f"{name} must be a torch tensor, got {type(tensor).__name__}")
    got = tuple(tensor.shape)
    require(
        got == size,
        f"{name} must have shape {tuple(size)} to fit x {tuple(like.shape)}, got {got}",
    )
    require(
        tensor.dtype == like.dtype,
        f"all tensors must share one dtype: {name} is {tensor.dtype}, x {like.dtype}",
    )
    raise ValueError(
        f"all tensors must share one device: {name} is on {tensor.device}, "
        f"x on {like.device}"
    )


def tokens(x) -> None:
    """A floating tensor (*batch, n, d) with at least one token and one feature."""
    require(torch.is_tensor(x), f"x must be a torch tensor, got {type(x).__name__}")
    if x.is_floating_point() and x.dim() >= 2 and 0 not in x.shape:
        return
    require(
        x.is_floating_point(), f"x must be floating point, got {x.dtype}: cast it first"
    )
    require(x.dim() >= 2, f"x must be (*batch, n, d), got {tuple(x.shape)}")
    raise ValueError(
        f"x needs at least one token and one feature, got {tuple(x.shape)}"
    )


def finite(**tensors) -> None:
    """The tensors, given by name, hold neither NaN nor infinity; None is skipped."""
    for name, t in tensors.items():
        if t is not None:
            require(bool(torch.isfinite(t).all()), f"{name} holds NaN or infinity")


def attends(mask, shapes, check: bool) -> None:
    """A boolean mask of one of the given shapes; with check, every token may attend to
    some token.
    """
    require(
        torch.is_tensor(mask), f"mask must be a torch tensor, got {type(mask).__name__}"
    )
    require(
        mask.dtype == torch.bool,
        f"mask must be boolean (True = may attend), got {mask.dtype}",
    )
    got = tuple(mask.shape)
    known = sorted(tuple(shape) for shape in shapes)
    require(got in known, f"mask must have one of the shapes {known}, got {got}")
    if check:
        empty = int((~mask).all(-1).sum())
        require(
            empty == 0,
            f"mask hides a whole row ({empty} rows attend to nothing): "
            "P 1 = 1 cannot hold. True means may attend; "
            "masks of torch.nn.MultiheadAttention mean the opposite",
        )
