"""A file of an index that is not what was written is recognised."""

from pathlib import Path

from durable_sessions.search import checksums
from durable_sessions.search.index import HEAP_BYTES_MIN, Document, Index
from durable_sessions.search.text import Searchable


def test_every_changed_bit_and_every_cut_is_seen(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "index", HEAP_BYTES_MIN)
    for n in range(50):
        index.add(Document(n % 3, n, n, Searchable(f"some words {n}", "note", "bash", "user")))
    index.commit()
    index.remove(1)
    index.commit()
    index.close()
    files = checksums.files(tmp_path / "index")
    assert {path.suffix for path in files} >= {".term", ".idx", ".pos", ".fast", ".fieldnorm", ".store"}
    for path in files:
        assert checksums.is_whole(path), path.name
        content = path.read_bytes()
        for at in range(0, len(content), max(1, len(content) // 40)):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            seen = not checksums.is_whole(path)
            in_version = content.rfind(b'{"version"') <= at < content.rfind(b'"crc"')
            assert seen or in_version, (path.name, at)
            path.write_bytes(content[:at])
            assert not checksums.is_whole(path), (path.name, at)
        path.unlink()
        assert checksums.is_whole(path)  # it is nobody's any more
