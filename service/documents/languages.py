"""The language that a document says it is in, compared with the one that was requested."""

from service.errors import InvalidRequest


def check_language(declared: str, wanted: str, what: str, field: str = "target") -> None:
    """Raise `InvalidRequest` if `what` declares another language than the wanted one; countries may differ."""
    one, two = (each.replace("_", "-").partition("-")[0].partition("@")[0].lower() for each in (declared, wanted))
    if one and two and one != two:
        raise InvalidRequest(field, f"must be {one}, the language in {what}, or change it there")
