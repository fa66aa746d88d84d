"""Atomic replacement of a file: it appears only when it is complete."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

with_output_file: Callable[[Callable[..., None]], Callable[..., None]] = click.option(
    "--output",
    "-o",
    "path",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="The file to write; standard output if not given.",
)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file; it replaces ``path`` if it was written without an error."""
    if path.exists() and not path.is_file():  # a device or a pipe is written directly
        with path.open("wb") as file:
            yield file
        return
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise click.FileError(str(path), error.strerror or str(error)) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        # A temporary file is private; the final one gets the usual permissions. The umask can only be read by
        # setting it.
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_pieces(path: Path, pieces: Iterable[bytes]) -> int:
    """Write a file piece by piece, as :func:`replacing` does, and return its size."""
    with replacing(path) as file:
        for piece in pieces:
            file.write(piece)
        return file.tell()
