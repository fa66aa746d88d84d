"""What a refusal says, whichever of its two shapes it has."""

import httpx2


def error_code(answer: httpx2.Response) -> str:
    """Return the stable code of a refusal."""
    said = answer.json()["error"]
    return str(said["details"]["error_code"] if "details" in said else said["code"])
