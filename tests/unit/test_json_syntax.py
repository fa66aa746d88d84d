"""Where bytes stop being JSON, in the words of whoever sent them."""

import gzip
import zlib

import msgspec
import pytest

from durable_sessions.json_syntax import fault

BOTH = "send both halves of a surrogate pair, or the character itself"
SEVERAL = "send one object, or several in a list: [{…},{…}]"
UNPACK = "unpack it, and send it without Content-Encoding"
VALUE = "send an object, a list, a number, true, false, null, or a text in double quotes"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "it is empty; send a JSON value"),
        (b" \n", "it is empty; send a JSON value"),
        (b'{"a":', "it ends too early, at line 1, column 6; send all of it"),
        (b'{\n "a": [1,\n', "it ends too early, at line 3, column 1; send all of it"),
        (b"hello", f"line 1, column 1: found hello; {VALUE}"),
        (b'{\n  "a": tru\n}', f"line 2, column 8: found tru; {VALUE}"),
        ("[1,\n é]".encode(), f"line 2, column 2: found é; {VALUE}"),
        ('["é", x]'.encode(), f"line 1, column 7: found x; {VALUE}"),
        (b"-", f"line 1, column 2: found the end; {VALUE}"),
        (b'{"a":True}', "line 1, column 6: found True; send true"),
        (b'{"a":undefined}', "line 1, column 6: found undefined; send null"),
        (b'{"a" 1}', "line 1, column 6: found 1; send a colon between a name and its value"),
        (b'{"a":1 "b":2}', 'line 1, column 8: found "; send a comma or the closing } here'),
        (b"[1 2]", "line 1, column 4: found 2; send a comma or the closing ] here"),
        (b"[1,]", "line 1, column 4: found ]; leave out the comma before ]"),
        (b"{} x", "line 1, column 4: found x; send nothing after the value that the body is"),
        (b'{"type":"a"}\n{"type":"b"}\n', "line 2, column 1: found {; " + SEVERAL),
        (b"01", "line 1, column 2: found 1; send a number as JSON writes it, such as 7, -0.5 or 1e9"),
        (b'["\\ud800 "]', "line 1, column 3: found \\ud800; " + BOTH),
        (b'["\\ud83d\\ude00\\ude00 and more"]', "line 1, column 15: found \\ude00; " + BOTH),
        (
            b'"a\x00"',
            "line 1, column 3: found the character U+0000; send control characters escaped, such as \\n",
        ),
        (b'"\xe9"', "line 1, column 2: found the byte 0xe9; send text as UTF-8"),
        (gzip.compress(b"{}", mtime=0), f"it is packed with gzip; {UNPACK}"),
        (zlib.compress(b"{}"), f"it is packed with deflate; {UNPACK}"),
        (zlib.compress(b"{}", level=9), f"it is packed with deflate; {UNPACK}"),
        (b"\x28\xb5\x2f\xfd\x00", f"it is packed with zstd; {UNPACK}"),
        (b"\xef\xbb\xbf{}", "it begins with a byte order mark; send UTF-8 without one"),
    ],
)
def test_faults_are_told_with_their_place(body: bytes, said: str) -> None:
    assert fault(body) == said


def test_what_the_decoder_said_is_not_asked_again() -> None:
    with pytest.raises(msgspec.DecodeError) as raised:
        msgspec.json.decode(b'{"a":1,}')
    assert fault(b'{"a":1,}', raised.value) == "line 1, column 8: found }; leave out the comma before }"
