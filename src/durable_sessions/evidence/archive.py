"""The zip file of a dossier: the same files are always the same bytes.

Files are stored without compression, since what a compressor writes depends on its version. Times,
permissions and the order of files are fixed. So there is exactly one archive of some files, and a reader can
tell whether any byte of it is another one, whether it belongs to a file or lies between two.
"""

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import BinaryIO

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
_LOCAL_SIGN, _CENTRAL_SIGN, _END_SIGN = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_VERSION = 20
_MADE_BY = 3 << 8 | _VERSION  # on Unix
_DAY = 1 << 5 | 1  # 1980-01-01, the first day that the format knows
_MODE = 0o100644 << 16
_PIECE_BYTES = 256 * 1024
NAME_BYTES_MAX = 1_024
SIZE_MAX = 2**32 - 2
"""Larger files, and archives, need an extension of the format."""
FILES_MAX = 2**16 - 2


class ArchiveDamagedError(ValueError):
    """The file is not an archive as it was written; the message says where."""


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file of an archive: its name, its size, and its digests; ``offset`` is where its head begins."""

    name: str
    size: int
    crc32: int
    sha256: str
    offset: int

    @property
    def head(self) -> bytes:
        """The bytes in front of it."""
        return _head(self.name, self.crc32, self.size)


class ArchiveWriter:
    """Writes an archive, one file after the other, to a file that can be sought."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.files: list[ArchivedFile] = []

    def add(self, name: str, pieces: Iterable[bytes]) -> ArchivedFile:
        """Write a whole file."""
        open_file = self.begin(name)
        for piece in pieces:
            open_file.write(piece)
        return open_file.end()

    def begin(self, name: str) -> "OpenFile":
        """Begin a file, whose pieces come later; it ends before the next one begins."""
        if len(name.encode()) > NAME_BYTES_MAX or len(self.files) >= FILES_MAX:
            raise ValueError("The archive cannot hold this file.")
        return OpenFile(self._file, name, self.files)

    def close(self) -> int:
        """Write the list of files at the end; return how large the archive is."""
        self._file.write(_directory(self.files, self._file.tell()))
        return self._file.tell()


class OpenFile:
    """A file of an archive that is being written."""

    def __init__(self, file: BinaryIO, name: str, files: list[ArchivedFile]) -> None:
        self._file = file
        self._name = name
        self._files = files
        self._offset = file.tell()
        self._digest = sha256()
        self._crc32 = self._size = 0
        file.write(_head(name, 0, 0))

    def write(self, piece: bytes) -> None:
        """Add to the file."""
        self._file.write(piece)
        self._digest.update(piece)
        self._crc32 = zlib.crc32(piece, self._crc32)
        self._size += len(piece)
        if self._offset + self._size > SIZE_MAX:
            raise ValueError("The archive is larger than its format allows.")

    def end(self) -> ArchivedFile:
        """Return the file, which is whole now."""
        made = ArchivedFile(self._name, self._size, self._crc32, self._digest.hexdigest(), self._offset)
        after = self._file.tell()
        self._file.seek(self._offset)
        self._file.write(made.head)
        self._file.seek(after)
        self._files.append(made)
        return made


Keep = Callable[[bytes], None]
"""Takes the next piece of a file."""


def read(file: BinaryIO, keep: Callable[[str], Keep | None] = lambda name: None) -> list[ArchivedFile]:
    """Return the files of an archive, or refuse it if it is not byte for byte as an ArchiveWriter writes it.

    ``keep`` says by name who gets the pieces of a file; its size is bounded by that of the archive only.
    """
    files: list[ArchivedFile] = []
    names: set[str] = set()
    offset = 0
    while True:
        head = file.read(_LOCAL.size)
        if head[:4] != _LOCAL_SIGN:
            break
        if len(head) < _LOCAL.size:
            raise ArchiveDamagedError(f"The archive ends in the middle of a file's head, at byte {offset}.")
        *_, crc32, size, stored, name_bytes, _ = _LOCAL.unpack(head)
        raw = file.read(name_bytes) if name_bytes <= NAME_BYTES_MAX else b""
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            name = ""
        if size != stored or not name or name in names or head + raw != _head(name, crc32, size):
            raise ArchiveDamagedError(f"The head of a file at byte {offset} is damaged.")
        names.add(name)
        files.append(_taken(file, name, size, crc32, offset, keep(name)))
        offset += len(head) + len(raw) + size
    expected = _directory(files, offset)
    # One byte more than expected is read, so that nothing can follow.
    if not files:
        raise ArchiveDamagedError("It is no zip file of a dossier.")
    if head + file.read(len(expected) - len(head) + 1) != expected:
        raise ArchiveDamagedError(f"The list of files at byte {offset} is damaged.")
    return files


def _taken(file: BinaryIO, name: str, size: int, crc32: int, offset: int, keep: Keep | None) -> ArchivedFile:
    digest, found = sha256(), 0
    for piece in _pieces(file, size):
        digest.update(piece)
        found = zlib.crc32(piece, found)
        if keep is not None:
            keep(piece)
    if found != crc32:
        raise ArchiveDamagedError(f"{name} is damaged: its checksum is another one, or it ends too early.")
    return ArchivedFile(name, size, crc32, digest.hexdigest(), offset)


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        piece = file.read(min(size, _PIECE_BYTES))
        if not piece:
            return
        size -= len(piece)
        yield piece


def _head(name: str, crc32: int, size: int) -> bytes:
    raw = name.encode()
    return _LOCAL.pack(_LOCAL_SIGN, _VERSION, 0, 0, 0, _DAY, crc32, size, size, len(raw), 0) + raw


def _directory(files: Sequence[ArchivedFile], offset: int) -> bytes:
    """Return what stands behind the files: the list of them, and where it begins."""
    entries = []
    for one in files:
        raw = one.name.encode()
        sizes = one.crc32, one.size, one.size
        entry = _CENTRAL.pack(
            _CENTRAL_SIGN, _MADE_BY, _VERSION, 0, 0, 0, _DAY, *sizes, len(raw), 0, 0, 0, 0, _MODE, one.offset
        )
        entries.append(entry + raw)
    listed = b"".join(entries)
    return listed + _END.pack(_END_SIGN, 0, 0, len(files), len(files), len(listed), offset, 0)
