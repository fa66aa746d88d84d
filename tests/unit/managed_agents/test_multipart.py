"""Forms with files: what clients send is taken apart byte for byte, and what is no form is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.errors import InvalidFileError
from durable_sessions.managed_agents.multipart import FormPart, form

KIND = 'multipart/form-data; boundary="mark"'


def part(head: str, data: bytes, line: bytes = b"\r\n") -> bytes:
    return b"--mark" + line + line.join(one.encode() for one in head.split("\n")) + 2 * line + data + line


def whole(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--mark--\r\n"


FILE = 'Content-Disposition: form-data; name="file"; filename="a.txt"\nContent-Type: text/plain'


@given(st.binary(max_size=200).filter(lambda data: b"--mark" not in data))
def test_the_bytes_of_a_file_stay_as_they_are(data: bytes) -> None:
    assert form(KIND, whole(part(FILE, data))) == {"file": FormPart("file", "a.txt", "text/plain", data)}


@pytest.mark.parametrize("line", [b"\r\n", b"\n"])
def test_line_ends_of_either_kind_are_taken(line: bytes) -> None:
    sent = part(FILE, b"x", line) + part('Content-Disposition: form-data; name="purpose"', b"y", line)
    assert form(KIND, sent + b"--mark--") == {
        "file": FormPart("file", "a.txt", "text/plain", b"x"),
        "purpose": FormPart("purpose", None, "application/octet-stream", b"y"),
    }


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=mark", "Multipart/Form-Data; BOUNDARY=mark"])
def test_the_boundary_may_be_written_in_several_ways(kind: str) -> None:
    assert form(kind, whole(part(FILE, b"x")))["file"].data == b"x"


def test_escaped_characters_of_a_file_name_are_taken_back() -> None:
    head = 'Content-Disposition: form-data; filename="a \\"b\\" \\\\.txt"; name="file"'
    assert form(KIND, whole(part(head, b"")))["file"].filename == 'a "b" \\.txt'


def test_the_name_may_stand_in_any_case_and_a_file_name_may_be_empty() -> None:
    head = 'CONTENT-DISPOSITION: form-data; NAME="file"; FILENAME=""'
    assert form(KIND, whole(part(head, b"")))["file"].filename == ""


@pytest.mark.parametrize("count", [10, 11])
def test_ten_parts_are_taken_and_no_more(count: int) -> None:
    sent = whole(*(part(f'Content-Disposition: form-data; name="p{at}"', b"") for at in range(count)))
    if count == 10:
        assert len(form(KIND, sent)) == 10
    else:
        with pytest.raises(InvalidFileError, match="more than 10 parts"):
            form(KIND, sent)


@pytest.mark.parametrize("more", [0, 1])
def test_a_head_has_8192_bytes_at_most(more: int) -> None:
    start = 'Content-Disposition: form-data; name="file"\nX: '
    # The head, and the empty line behind it, must lie within the limit.
    filling = "x" * (8_192 - len(start) - 1 - 4 + more)
    sent = whole(part(start + filling, b"data"))
    if more:
        with pytest.raises(InvalidFileError, match="too long"):
            form(KIND, sent)
    else:
        assert form(KIND, sent)["file"].data == b"data"


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("application/json", b"{}", "Send multipart/form-data"),
        ("multipart/form-data", b"--mark", "with a boundary"),
        (f"multipart/form-data; boundary={'x' * 0}", b"", "with a boundary"),
        (KIND, b"nothing", "does not begin with its boundary"),
        (KIND, b"", "does not begin with its boundary"),
        (KIND, part(FILE, b"x"), "ends before its last boundary"),
        (KIND, b"--markx" + part(FILE, b"x"), "ends before its last boundary"),
        (KIND, whole(part("Content-Type: text/plain", b"x")), "has no name"),
        (KIND, b"--mark\r\nno head at all\r\n--mark--", "has no head"),
    ],
)
def test_what_is_no_form_is_refused(kind: str, body: bytes, words: str) -> None:
    with pytest.raises(InvalidFileError, match=words):
        form(kind, body)


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail_in_another_way(body: bytes) -> None:
    for sent in (body, b"--mark" + body, whole(part(FILE, body))):
        try:
            form(KIND, sent)
        except InvalidFileError:
            pass
