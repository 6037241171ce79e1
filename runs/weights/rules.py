"""Comparison of a weights file with its manifest."""

from rolldeck.safetensors import Header


def differing_field(
    header: Header, *, expected: list[tuple[str, str, tuple[int, ...]]]
) -> tuple[str, str] | None:
    """Return path and reason of the first expected tensor that differs in the file.

    Args:
        header: Header of the file.
        expected: Name, dtype and shape of each tensor, in any order.
    """
    held = {tensor.name: tensor for tensor in header.tensors}
    seen: set[str] = set()
    for index, (name, dtype, shape) in enumerate(expected):
        path = f"tensors[{index}]"
        tensor = held.get(name)
        if tensor is None or name in seen:
            return f"{path}.name", f"{name!r} is " + (
                "named twice" if tensor else "not in the file"
            )
        if tensor.dtype != dtype:
            return f"{path}.dtype", f"{name!r} is {tensor.dtype} in the file, not {dtype}"
        if tensor.shape != shape:
            return (
                f"{path}.shape",
                f"{name!r} is {list(tensor.shape)} in the file, not {list(shape)}",
            )
        seen.add(name)
    missing = sorted(set(held) - seen)
    return ("tensors", f"the file also holds {missing[0]!r}") if missing else None
